/** Shell blocks of guides that are not run by the test of the guides, by their first command, and why. */

/** A test that runs it, or what it says. */
const by = (file: string): string => file;
const packages = by('scripts/release/package.deep.test.ts');
const chart = by('scripts/chart.test.ts');
const manifest = by('scripts/manifest.test.ts');
const image = by('scripts/release/image.test.ts');
const removal = by('apps/uninstall/uninstall.test.ts');
const takeover = by('guards/network-policy/commands/cleanup.test.ts');

const placeholders = 'has names of the reader';
const endless = 'shows what comes, on a terminal, beside commands that end';
const registry = 'needs a registry';
const jq = 'needs jq, which tests do without';
const product = 'needs the product that it is about';

/** Why not: a sentence, or the test that runs it. */
export const notRun: Readonly<Record<string, readonly (readonly [firstLine: string, why: string])[]>> = {
  'README.md': [['npm run demo ', by('scripts/demo.test.ts')]],
  'deploy/README.md': [
    ['npm run manifest -- --image registry.example/rampart:0.1.0 ', manifest],
    ['(cd deploy && kustomize edit', 'needs kustomize, and writes into the clone'],
    ['helm install ', chart],
    ['npm run manifest -- --image registry.example/rampart:0.2.0', manifest],
    ['rampart uninstall  ', removal],
    ['npm run manifest -- --uninstall ', removal],
    ['docker build ', 'needs Docker'],
    ['RAMPART_IMAGE=', image],
  ],
  'docs/bpf-programs.md': [
    ['clang ', 'needs a compiler; scripts/check-bpf compiles the example'],
    ['rampart bpf stats --top ', endless],
    ['rampart bpf map lookup ', placeholders],
    ['rampart bpf verify registry.example', registry],
  ],
  'docs/commands.md': [
    ['rampart status -o json | jq', jq],
    ['journalctl ', packages],
    ['source <(', 'a line for each shell'],
  ],
  'docs/file-access.md': [
    ['kubectl create secret generic receiver ', placeholders],
    ['rampart agent --callback-secret', placeholders],
  ],
  'docs/install.md': [
    ['sudo apt install', packages],
    ['RAMPART_OPTIONS=', packages],
    ['apt install kubernetes-client', packages],
    ['cat /etc/shadow', packages],
    ['rampart alerts', packages],
    ['tar -xzf rampart-0.1.0', packages],
    ['sudo npm install', packages],
    ['npm run image ', image],
    ['npm run manifest ', manifest],
    ['kubectl rollout status ', endless],
    ['systemctl stop rampart', packages],
    ['systemctl stop rampart', packages],
    ['apt remove rampart', packages],
  ],
  'docs/moving.md': [
    ['rampart doctor  ', takeover],
    ['kubectl edit ', product],
    ['rampart network takeover', takeover],
    ['mkdir -p /etc/rancher/k3s', product],
    ['rampart network takeover', takeover],
    ['kubectl patch servicemonitor/metrics', product],
  ],
  'docs/network-policy.md': [['kubectl apply -f policy.yaml', placeholders]],
  'docs/otlp.md': [['rampart standalone ', by('apps/standalone/otlp.test.ts')]],
  'docs/policy-audit.md': [
    ['rampart policy pull ', registry],
    ['kubectl get policyreports -A -o json | jq', jq],
  ],
  'docs/release.md': [
    ['npm run release', by('scripts/release/release.test.ts')],
    ['gpg --verify', by('scripts/release/release.test.ts')],
  ],
  'docs/standalone.md': [
    ['cat > pod.json', 'needs crictl, and a network of the container runtime'],
    ['kubectl logs ', by('apps/standalone/logs.test.ts')],
  ],
  'docs/ui.md': [
    ['ssh ', 'needs another machine'],
    ['cat /var/lib/rampart/viewer.token', by('ui/standalone.test.ts')],
    ['kubectl -n rampart-system port-forward', 'needs a kubelet'],
    ['kubectl -n shop create rolebinding ann-rampart', placeholders],
  ],
  'docs/watch.md': [
    ['rampart watch -o json /srv/demo', jq],
    ['rampart watch -o json /etc/shadow', jq],
    ['rampart doctor -o json', jq],
  ],
  'examples/README.md': [['rampart standalone ', 'the beginning of all guides, which run it']],
};
