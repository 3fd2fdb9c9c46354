/**
 * The objects that bpfman-operator v0.5.5 ships as samples (config/samples), by what they say: kind, name and specification.
 *
 * @module
 */

export interface Sample {
  readonly kind: string;
  readonly name: string;
  readonly namespace?: string;
  readonly spec: object;
}

const quay = (name: string): object => ({ image: { url: `quay.io/bpfman-bytecode/${name}:latest` } });
const globaldata = { GLOBAL_u8: [0x01], GLOBAL_u32: [0x0d, 0x0c, 0x0b, 0x0a] };
const eth0 = { interfaceselector: { interfaces: ['eth0'] } };
const primary = { interfaceselector: { primarynodeinterface: true } };
const daemon = {
  containers: {
    namespace: 'bpfman',
    pods: { matchLabels: { name: 'bpfman-daemon' } },
    containernames: ['bpfman', 'bpfman-agent'],
  },
};
const nginx = { containers: { pods: { matchLabels: { app: 'nginx' } }, containernames: ['nginx'] } };
const anyNginx = { containers: { pods: { matchLabels: { app: 'nginx' } } } };
const nodes = { nodeselector: {} };

const app = (programs: readonly object[]): object => ({
  ...nodes,
  bytecode: quay('go-app-counter'),
  programs,
});
const probe = { bpffunctionname: 'my_uprobe', func_name: 'malloc', target: 'libc', retprobe: false };

export const samples: readonly Sample[] = [
  {
    kind: 'BpfApplication',
    name: 'bpfapplication-sample',
    spec: app([
      {
        type: 'Kprobe',
        kprobe: {
          bpffunctionname: 'kprobe_counter',
          func_name: 'try_to_wake_up',
          offset: 0,
          retprobe: false,
        },
      },
      {
        type: 'Tracepoint',
        tracepoint: { bpffunctionname: 'tracepoint_kill_recorder', names: ['syscalls/sys_enter_kill'] },
      },
      { type: 'TC', tc: { bpffunctionname: 'stats', ...primary, priority: 55, direction: 'ingress' } },
      {
        type: 'Uprobe',
        uprobe: { ...probe, bpffunctionname: 'uprobe_counter', ...daemon },
      },
      { type: 'XDP', xdp: { bpffunctionname: 'xdp_stats', ...primary, priority: 55 } },
    ]),
  },
  {
    kind: 'BpfApplication',
    name: 'bpfapp-containers',
    spec: app([
      {
        type: 'TC',
        tc: { bpffunctionname: 'stats', ...primary, priority: 55, direction: 'ingress', ...daemon },
      },
      {
        type: 'TCX',
        tcx: { bpffunctionname: 'tcx_stats', ...primary, priority: 500, direction: 'ingress', ...daemon },
      },
      { type: 'XDP', xdp: { bpffunctionname: 'xdp_stats', ...primary, priority: 55, ...daemon } },
    ]),
  },
  {
    kind: 'BpfNsApplication',
    name: 'bpfapplication-sample',
    namespace: 'acme',
    spec: app([
      {
        type: 'TC',
        tc: { bpffunctionname: 'stats', ...primary, priority: 55, direction: 'ingress', ...anyNginx },
      },
      {
        type: 'TCX',
        tcx: { bpffunctionname: 'tcx_stats', ...primary, priority: 500, direction: 'ingress', ...anyNginx },
      },
      { type: 'Uprobe', uprobe: { ...probe, bpffunctionname: 'uprobe_counter', ...anyNginx } },
      { type: 'XDP', xdp: { bpffunctionname: 'xdp_stats', ...primary, priority: 55, ...anyNginx } },
    ]),
  },
  {
    kind: 'FentryProgram',
    name: 'fentry-example',
    spec: { ...nodes, bpffunctionname: 'test_fentry', func_name: 'do_unlinkat', bytecode: quay('fentry') },
  },
  {
    kind: 'FexitProgram',
    name: 'fexit-example',
    spec: { ...nodes, bpffunctionname: 'test_fexit', func_name: 'do_unlinkat', bytecode: quay('fexit') },
  },
  {
    kind: 'KprobeProgram',
    name: 'kprobe-example',
    spec: {
      ...nodes,
      bpffunctionname: 'my_kprobe',
      func_name: 'try_to_wake_up',
      offset: 0,
      retprobe: false,
      bytecode: quay('kprobe'),
      globaldata,
    },
  },
  {
    kind: 'KprobeProgram',
    name: 'kprobe-globals-test',
    spec: {
      ...nodes,
      bpffunctionname: 'kprobe_globals',
      func_name: 'try_to_wake_up',
      bytecode: quay('kprobe_globals'),
      globaldata: {
        sampling: [1, 2, 3, 4],
        trace_messages: [5],
        enable_rtt: [6],
        enable_pca: [7],
        enable_dns_tracking: [8],
        enable_flows_filtering: [9],
        dns_port: [0x0a, 0x0b],
        enable_network_events_monitoring: [0x0c],
        network_events_monitoring_groupid: [0x0d],
      },
    },
  },
  {
    kind: 'TracepointProgram',
    name: 'tracepoint-example',
    spec: {
      ...nodes,
      bpffunctionname: 'enter_openat',
      names: ['syscalls/sys_enter_openat'],
      bytecode: quay('tracepoint'),
      globaldata,
    },
  },
  ...['Tc', 'Tcx'].flatMap((type): Sample[] => {
    const lower = type.toLowerCase();
    const of = {
      ...nodes,
      bpffunctionname: type === 'Tc' ? 'pass' : 'tcx_next',
      priority: 0,
      direction: 'ingress',
      bytecode: quay(type === 'Tc' ? 'tc_pass' : 'tcx_test'),
      globaldata,
    };
    return [
      { kind: `${type}Program`, name: `${lower}-pass-all-nodes`, spec: { ...of, ...primary } },
      { kind: `${type}Program`, name: `${lower}-containers`, spec: { ...of, ...eth0, ...daemon } },
      {
        kind: `${type}NsProgram`,
        name: `${lower}-containers`,
        namespace: 'acme',
        spec: { ...of, ...eth0, ...nginx },
      },
      {
        kind: `${type}NsProgram`,
        name: `${lower}-pass`,
        namespace: 'acme',
        spec: { ...of, ...primary, ...anyNginx },
      },
    ];
  }),
  {
    kind: 'UprobeProgram',
    name: 'uprobe-example',
    spec: { ...nodes, ...probe, bytecode: quay('uprobe'), globaldata },
  },
  {
    kind: 'UprobeProgram',
    name: 'uprobe-example-containers',
    spec: { ...nodes, ...probe, bytecode: quay('uprobe'), globaldata, ...daemon },
  },
  {
    kind: 'UprobeNsProgram',
    name: 'uprobe-example',
    namespace: 'acme',
    spec: { ...nodes, ...probe, bytecode: quay('uprobe'), globaldata, ...anyNginx },
  },
  ...[primary, { ...eth0, ...daemon }].map((where, index): Sample => ({
    kind: 'XdpProgram',
    name: index === 0 ? 'xdp-pass-all-nodes' : 'xdp-containers',
    spec: {
      ...nodes,
      bpffunctionname: 'pass',
      ...where,
      priority: 0,
      bytecode: quay('xdp_pass'),
      globaldata,
    },
  })),
  {
    kind: 'XdpProgram',
    name: 'xdp-pass-private-all-nodes',
    spec: {
      ...nodes,
      bpffunctionname: 'pass',
      ...primary,
      priority: 0,
      bytecode: {
        image: {
          imagepullsecret: { name: 'regcred', namespace: 'bpfman' },
          url: 'quay.io/bpfman-bytecode/xdp_pass_private:latest',
        },
      },
      globaldata,
    },
  },
  ...[nginx, anyNginx].map((where, index): Sample => ({
    kind: 'XdpNsProgram',
    name: index === 0 ? 'xdp-containers' : 'xdp-pass',
    namespace: 'acme',
    spec: {
      ...nodes,
      bpffunctionname: 'pass',
      ...eth0,
      ...where,
      priority: 0,
      bytecode: quay('xdp_pass'),
      globaldata,
    },
  })),
];
