/**
 * The objects that bpfman-operator v0.5.5 ships as samples: those of its kustomization, as its bundle has them (alm-examples of the
 * ClusterServiceVersion), and the others of config/samples; and three that bpfman had beside them before the operator moved to a
 * repository of its own (b295a43, 7c2208c, 9eb834e). By what they say: kind, name and specification; the form is our own.
 */

export interface Sample {
  readonly apiVersion: 'bpfman.io/v1alpha1';
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels: Readonly<Record<string, string>>;
  };
  readonly spec: object;
}

/** In `acme` where the kind is namespaced. */
function sample(kind: string, name: string, spec: object): Sample {
  const isNamespaced = /Ns(?:Program|Application)$/.test(kind);
  return {
    apiVersion: 'bpfman.io/v1alpha1',
    kind,
    metadata: {
      name,
      ...(isNamespaced && { namespace: 'acme' }),
      labels: { 'app.kubernetes.io/name': kind.toLowerCase() },
    },
    // Select all nodes
    spec: { nodeselector: {}, ...spec },
  };
}

const image = (name: string, more: object = {}): object => ({
  bytecode: { image: { url: `quay.io/bpfman-bytecode/${name}:v0.5.5`, ...more } },
});
const globals = { globaldata: { GLOBAL_u8: [0x01], GLOBAL_u32: [0x0d, 0x0c, 0x0b, 0x0a] } };
const eth0 = { interfaceselector: { interfaces: ['eth0'] } };
const primary = { interfaceselector: { primarynodeinterface: true } };
const ingress = { direction: 'ingress' };
const daemon = {
  containers: {
    namespace: 'bpfman',
    pods: { matchLabels: { name: 'bpfman-daemon' } },
    containernames: ['bpfman', 'bpfman-agent'],
  },
};
const nginx = { containers: { pods: { matchLabels: { app: 'nginx' } }, containernames: ['nginx'] } };
const anyNginx = { containers: { pods: { matchLabels: { app: 'nginx' } } } };

const stats = { bpffunctionname: 'stats', ...primary, priority: 55, ...ingress };
const tcxStats = { bpffunctionname: 'tcx_stats', ...primary, priority: 500, ...ingress };
const xdpStats = { bpffunctionname: 'xdp_stats', ...primary, priority: 55 };
const malloc = { bpffunctionname: 'uprobe_counter', func_name: 'malloc', target: 'libc', retprobe: false };
const wakeUp = { func_name: 'try_to_wake_up', offset: 0, retprobe: false };

const xdp = { bpffunctionname: 'pass', priority: 0, ...image('xdp_pass'), ...globals };
const tc = { bpffunctionname: 'pass', priority: 0, ...ingress, ...image('tc_pass'), ...globals };
const tcx = { bpffunctionname: 'tcx_next', priority: 0, ...ingress, ...image('tcx_test'), ...globals };
const uprobe = {
  bpffunctionname: 'my_uprobe',
  target: 'libc',
  retprobe: false,
  ...image('uprobe'),
  ...globals,
};

export const samples: readonly Sample[] = [
  sample('BpfApplication', 'bpfapplication-sample', {
    ...image('go-app-counter'),
    programs: [
      { type: 'Kprobe', kprobe: { bpffunctionname: 'kprobe_counter', ...wakeUp } },
      {
        type: 'Tracepoint',
        tracepoint: { bpffunctionname: 'tracepoint_kill_recorder', names: ['syscalls/sys_enter_kill'] },
      },
      { type: 'TC', tc: stats },
      { type: 'TCX', tcx: tcxStats },
      { type: 'Uprobe', uprobe: { ...malloc, ...daemon } },
      { type: 'XDP', xdp: xdpStats },
    ],
  }),
  sample('BpfApplication', 'bpfapp-containers', {
    ...image('go-app-counter'),
    programs: [
      { type: 'TC', tc: { ...stats, ...daemon } },
      { type: 'TCX', tcx: { ...tcxStats, ...daemon } },
      { type: 'XDP', xdp: { ...xdpStats, ...daemon } },
    ],
  }),
  sample('BpfNsApplication', 'bpfapplication-sample', {
    ...image('go-app-counter'),
    programs: [
      { type: 'TC', tc: { ...stats, ...anyNginx } },
      { type: 'TCX', tcx: { ...tcxStats, ...anyNginx } },
      { type: 'Uprobe', uprobe: { ...malloc, ...anyNginx } },
      { type: 'XDP', xdp: { ...xdpStats, ...anyNginx } },
    ],
  }),
  sample('FentryProgram', 'fentry-example', {
    bpffunctionname: 'test_fentry',
    func_name: 'do_unlinkat',
    ...image('fentry'),
  }),
  sample('FexitProgram', 'fexit-example', {
    bpffunctionname: 'test_fexit',
    func_name: 'do_unlinkat',
    ...image('fexit'),
  }),
  sample('KprobeProgram', 'kprobe-example', {
    bpffunctionname: 'my_kprobe',
    ...wakeUp,
    ...image('kprobe'),
    ...globals,
  }),
  sample('KprobeProgram', 'kprobe-globals-test', {
    bpffunctionname: 'kprobe_globals',
    func_name: 'try_to_wake_up',
    ...image('kprobe_globals'),
    globaldata: {
      sampling: [0x01, 0x02, 0x03, 0x04],
      trace_messages: [0x05],
      enable_rtt: [0x06],
      enable_pca: [0x07],
      enable_dns_tracking: [0x08],
      enable_flows_filtering: [0x09],
      dns_port: [0x0a, 0x0b],
      enable_network_events_monitoring: [0x0c],
      network_events_monitoring_groupid: [0x0d],
    },
  }),
  sample('TracepointProgram', 'tracepoint-example', {
    bpffunctionname: 'enter_openat',
    names: ['syscalls/sys_enter_openat'],
    ...image('tracepoint'),
    ...globals,
  }),
  sample('TcProgram', 'tc-pass-all-nodes', { ...tc, ...primary }),
  sample('TcProgram', 'tc-containers', { ...tc, ...eth0, ...daemon }),
  sample('TcNsProgram', 'tc-containers', { ...tc, ...eth0, ...nginx }),
  sample('TcxProgram', 'tcx-pass-all-nodes', { ...tcx, bpffunctionname: 'tcx_pass', ...primary }),
  sample('TcxProgram', 'tcx-containers', { ...tcx, ...eth0, ...daemon }),
  sample('TcxNsProgram', 'tcx-containers', { ...tcx, ...eth0, ...nginx }),
  sample('UprobeProgram', 'uprobe-example', { ...uprobe, func_name: 'syscall' }),
  sample('UprobeProgram', 'uprobe-example-containers', { ...uprobe, func_name: 'malloc', ...daemon }),
  sample('UprobeProgram', 'uprobe-example-containers-all', {
    ...uprobe,
    func_name: 'malloc',
    containers: { pods: {} },
  }),
  sample('UprobeProgram', 'uprobe-example-nginx', {
    ...uprobe,
    func_name: 'malloc',
    containers: { namespace: 'default', pods: { matchLabels: {} }, containernames: ['nginx'] },
  }),
  sample('UprobeNsProgram', 'uprobe-example', { ...uprobe, func_name: 'syscall', ...nginx }),
  sample('XdpProgram', 'xdp-pass-all-nodes', { ...xdp, ...primary }),
  sample('XdpProgram', 'go-counter-example', {
    bpffunctionname: 'stats',
    priority: 5,
    ...primary,
    ...image('go-xdp-counter'),
  }),
  sample('XdpProgram', 'xdp-containers', { ...xdp, ...eth0, ...daemon }),
  sample('XdpProgram', 'xdp-pass-private-all-nodes', {
    ...xdp,
    ...primary,
    ...image('xdp_pass_private', { imagepullsecret: { name: 'regcred', namespace: 'bpfman' } }),
  }),
  sample('XdpNsProgram', 'xdp-ns-pass-all-nodes', { ...xdp, ...eth0, ...nginx }),
];
