/** The kubeconfig of one server. */

interface KubeconfigParts {
  readonly url: string;
  /** PEM. */
  readonly authority: string;
  readonly token: string;
}

/** As YAML, with one context of the name `rampart`. */
export function kubeconfigText({ url, authority, token }: KubeconfigParts): string {
  const lines = [
    'apiVersion: v1',
    'kind: Config',
    'current-context: rampart',
    'clusters:',
    '- name: rampart',
    '  cluster:',
    `    server: ${JSON.stringify(url)}`,
    `    certificate-authority-data: ${Buffer.from(authority).toString('base64')}`,
    'users:',
    '- name: rampart-admin',
    '  user:',
    `    token: ${JSON.stringify(token)}`,
    'contexts:',
    '- name: rampart',
    '  context:',
    '    cluster: rampart',
    '    user: rampart-admin',
  ];
  return `${lines.join('\n')}\n`;
}
