/**
 * What a guard brings to deploy/, as a kustomize Component: its resources, and patches that add its rights to the roles of
 * deploy/base/, and to the pods its flag, capabilities and mounts.
 *
 * Roles are patched, and not joined by others, so that a guard that is not deployed any more has no rights any more: kubectl
 * takes nothing away that is not in what it applies. What two guards bring comes out once, but for rules and capabilities, where
 * twice means the same as once.
 */
import type { Guard, GuardRights, PodNeeds, Right } from '../guard/guard.ts';

const made = (from: string): string =>
  `# Made from ${from} by \`node scripts/manifests.ts --write\`. Change it there.\n`;

/** The component of one guard. `resources` are paths from its directory. */
export function componentYaml(guard: Guard, resources: readonly string[]): string {
  const { name, summary, rights, pod = {} } = guard;
  const flag = value('args', `--guards=${name}`);
  const patches = [
    target('DaemonSet', 'rampart-agent', [
      flag,
      ...(pod.args ?? []).map((arg) => value('args', arg)),
      ...(pod.capabilities ?? []).map(
        ({ name: one, why }) => comment(why) + value('securityContext/capabilities/add', one),
      ),
    ]),
    podPatch(pod),
    target('Deployment', 'rampart-operator', [flag]),
    ...(['agent', 'operator', 'viewer'] as const).flatMap((who) => [
      rules('ClusterRole', who, rights[who]?.filter(({ inSystem }) => inSystem !== true) ?? []),
      rules('Role', who, rights[who]?.filter(({ inSystem }) => inSystem === true) ?? []),
    ]),
  ];
  return `${made(`guards/${name}/`)}# ${name}: ${summary}.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
labels:
  - pairs:
      app.kubernetes.io/part-of: rampart
${resources.length === 0 ? '' : `resources:\n${resources.map((path) => `  - ${path}\n`).join('')}`}patches:
${patches.join('')}`;
}

/** The component of all guards. */
export function allYaml(guards: readonly Guard[]): string {
  const names = guards.map(({ name }) => `  - ${name}\n`).join('');
  return `${made('apps/guards.ts')}# Every guard.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
components:
${names}`;
}

/** The ClusterRoles that others bind; `undefined` where there are none. */
export function rolesYaml({ name: guard, rights: { roles = [] } }: Guard): string | undefined {
  if (roles.length === 0) return undefined;
  return made(`guards/${guard}/`) + roles.map(roleYaml).join('---\n');
}

/** The ClusterRole of deploy/uninstall/. */
export function uninstallYaml(rights: readonly Right[]): string {
  const why = 'What `rampart uninstall` needs, of all guards.';
  return made('apps/uninstall/') + roleYaml({ name: 'rampart-uninstall', why, rules: rights });
}

function roleYaml({ name, why, rules: all }: NonNullable<GuardRights['roles']>[number]): string {
  return `# ${why}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${name}
rules:
${all.map((right) => comment(right.why) + indented('- ', '  ', fieldsOf(right))).join('')}`;
}

function target(kind: string, name: string, lines: readonly string[]): string {
  return `  - target:
      kind: ${kind}
      name: ${name}
    patch: |-
${indented('      ', '      ', lines.join(''))}`;
}

function rules(kind: 'ClusterRole' | 'Role', who: string, rights: readonly Right[]): string {
  if (rights.length === 0) return '';
  const operations = rights.map(
    (right) => `${comment(right.why)}- op: add\n  path: /rules/-\n  value:\n${under(under(fieldsOf(right)))}`,
  );
  return target(kind, `rampart-${who}`, operations);
}

function fieldsOf({ apiGroups, resources, resourceNames, verbs }: Right): string {
  const list = (words: readonly string[]): string => `[${words.map(scalar).join(', ')}]`;
  const names = resourceNames === undefined ? '' : `resourceNames: ${list(resourceNames)}\n`;
  return `apiGroups: ${list(apiGroups)}\nresources: ${list(resources)}\n${names}verbs: ${list(verbs)}\n`;
}

/** An item more of a list of the only container. */
function value(list: string, item: string): string {
  return `- op: add\n  path: /spec/template/spec/containers/0/${list}/-\n  value: ${scalar(item)}\n`;
}

/** A strategic merge patch: volumes are merged by their names, mounts by their paths. */
function podPatch({ hostPID, hostNetwork, appArmorUnconfined, mounts = [] }: PodNeeds): string {
  const flag = (name: string, why: string | undefined): string =>
    why === undefined ? '' : `${comment(why)}${name}: true\n`;
  const unconfined = (why: string): string => `${comment(why)}appArmorProfile:\n  type: Unconfined\n`;
  const volumeMounts = mounts.map(
    ({ name, mountPath, readOnly, propagation, why }) =>
      `${comment(why)}- name: ${name}\n  mountPath: ${mountPath}\n` +
      (readOnly === true ? '  readOnly: true\n' : '') +
      (propagation === undefined ? '' : `  mountPropagation: ${propagation}\n`),
  );
  const volumes = mounts.map(
    ({ name, hostPath, type }) => `- name: ${name}\n  hostPath:\n    path: ${hostPath}\n    type: ${type}\n`,
  );
  const container =
    (appArmorUnconfined === undefined ? '' : `securityContext:\n${under(unconfined(appArmorUnconfined))}`) +
    (mounts.length === 0 ? '' : `volumeMounts:\n${under(volumeMounts.join(''))}`);
  const spec =
    flag('hostPID', hostPID) +
    flag('hostNetwork', hostNetwork) +
    (hostNetwork === undefined
      ? ''
      : '# Else it would have the DNS of the node, which knows no Services.\ndnsPolicy: ClusterFirstWithHostNet\n') +
    (container === '' ? '' : `containers:\n${indented('  - ', '    ', `name: agent\n${container}`)}`) +
    (mounts.length === 0 ? '' : `volumes:\n${under(volumes.join(''))}`);
  if (spec === '') return '';
  const patch = `apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: rampart-agent
spec:
  template:
    spec:
${indented('      ', '      ', spec)}`;
  return target('DaemonSet', 'rampart-agent', [patch]);
}

function comment(why: string | undefined): string {
  return why === undefined ? '' : `# ${why}\n`;
}

/** YAML 1.1 and 1.2 read other words as they stand here. */
function scalar(text: string): string {
  return /^(?:[A-Za-z]|--)[\w./=-]*[\w]$/.test(text) && !/^(?:y|n|yes|no|on|off|true|false|null)$/i.test(text)
    ? text
    : `'${text.replaceAll("'", "''")}'`;
}

function under(text: string): string {
  return indented('  ', '  ', text);
}

function indented(first: string, others: string, text: string): string {
  return text
    .trimEnd()
    .split('\n')
    .map((line, at) => `${at === 0 ? first : others}${line}\n`)
    .join('');
}
