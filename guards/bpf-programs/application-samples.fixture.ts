/** The objects that bpfman-operator v0.6 ships as samples (config/samples), by what they say; the form is our own. */

export interface ApplicationSample {
  readonly apiVersion: 'bpfman.io/v1alpha1';
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
  };
  readonly spec?: object;
  readonly status?: object;
}

const apiVersion = 'bpfman.io/v1alpha1';
const image = (name: string, more: object = {}): object => ({
  image: { url: `quay.io/bpfman-bytecode/${name}:latest`, ...more },
});
const globalData = { GLOBAL_u8: [0x01], GLOBAL_u32: [0x0d, 0x0c, 0x0b, 0x0a] };

function application(name: string, spec: object, namespace?: string): ApplicationSample {
  const kind = namespace === undefined ? 'ClusterBpfApplication' : 'BpfApplication';
  const labels = { 'app.kubernetes.io/name': kind.toLowerCase() };
  const metadata = { name, ...(namespace !== undefined && { namespace }), labels };
  return { apiVersion, kind, metadata, spec: { nodeSelector: {}, byteCode: image('app-test'), ...spec } };
}

const eth0 = { interfaceSelector: { interfaces: ['eth0'] } };
const primary = { interfaceSelector: { primaryNodeInterface: true } };
const ingress = { direction: 'Ingress' };
const egress = { direction: 'Egress' };
const target = { pods: { matchLabels: { app: 'test-target' } } };
const inTarget = { networkNamespaces: target };
const daemon = { namespace: 'bpfman', pods: { matchLabels: { name: 'bpfman-daemon' } } };
const inDaemon = { networkNamespaces: daemon };
const wakeUp = { function: 'try_to_wake_up' };
const malloc = { function: 'malloc', target: 'libc' };
const inDaemonContainers = { containers: { ...daemon, containerNames: ['bpfman', 'bpfman-agent'] } };
const all = { interfaceSelector: { interfacesDiscoveryConfig: { interfaceAutoDiscovery: true } } };

type Links = readonly object[] | null;

/** All ten types; null: `links:` with nothing behind it. */
function everyType(of: Readonly<Record<string, Links>>): object[] {
  const row = (name: string, type: string, more: object = {}): object => {
    const field = type.toLowerCase();
    return { name, type, [field]: { ...more, links: of[field] ?? null } };
  };
  return [
    row('kprobe_test', 'KProbe'),
    row('kretprobe_test', 'KRetProbe'),
    row('tracepoint_test', 'TracePoint'),
    row('tc_pass_test', 'TC'),
    row('tcx_next_test', 'TCX'),
    row('uprobe_test', 'UProbe'),
    row('uretprobe_test', 'URetProbe'),
    row('xdp_pass_test', 'XDP'),
    row('fentry_test', 'FEntry', { function: 'do_unlinkat' }),
    row('fexit_test', 'FExit', { function: 'do_unlinkat' }),
  ];
}

function network(of: { tc: Links; tcx: Links; xdp: Links }): object[] {
  return [
    { name: 'tc_pass_test', type: 'TC', tc: { links: of.tc } },
    { name: 'tcx_next_test', type: 'TCX', tcx: { links: of.tcx } },
    { name: 'xdp_pass_test', type: 'XDP', xdp: { links: of.xdp } },
  ];
}

function state(
  kind: string,
  controller: string,
  owner: string,
  digits: string,
  programs: readonly object[],
  namespace?: string,
): ApplicationSample {
  const node = 'bpfman-deployment-control-plane';
  return {
    apiVersion,
    kind,
    metadata: {
      name: `${owner}-${digits}`,
      ...(namespace !== undefined && { namespace }),
      labels: { 'bpfman.io/ownedByProgram': owner, 'kubernetes.io/hostname': node },
      finalizers: [`bpfman.io.${controller}controller/finalizer`],
    },
    status: {
      appLoadStatus: 'LoadSuccess',
      conditions: [
        {
          lastTransitionTime: '2025-04-30T21:01:50Z',
          message: 'The BPF application has been successfully loaded and attached',
          ...{ reason: 'Success', status: 'True', type: 'Success' },
        },
      ],
      ...{ node, programs, updateCount: 2 },
    },
  };
}

const attached = { shouldAttach: true, linkStatus: 'Attached', uuid: '38e00746-b7be-4bcf-bf14-622ad349b4fa' };
const order = { priority: 55, proceedOn: ['Pipe', 'DispatcherReturn'] };
const program = (name: string, type: string, link: object, more: object = {}): object => ({
  ...{ name, type, programId: 1398, programLinkStatus: 'Success' },
  [type.toLowerCase()]: { ...more, links: [{ ...attached, linkId: 1_909_324_080, ...link }] },
});
const inProcess = { ...malloc, containerPid: 3041, offset: 0 };
const netns = { interfaceName: 'eth0', netnsPath: '/host/proc/3041/ns/net' };
const namespacedPrograms = [
  program('tc_pass_test', 'TC', { ...netns, ...ingress, ...order }),
  program('tcx_next_test', 'TCX', { ...netns, ...egress, priority: 100 }),
  program('uprobe_test', 'UProbe', inProcess),
  program('uretprobe_test', 'URetProbe', inProcess),
  program('xdp_pass_test', 'XDP', { ...netns, priority: 100, proceedOn: ['Pass', 'DispatcherReturn'] }),
];

export const applicationSamples: readonly ApplicationSample[] = [
  application(
    'bpfapplication-sample',
    {
      globalData,
      programs: [
        {
          name: 'tc_pass_test',
          type: 'TC',
          tc: { links: [{ ...eth0, priority: 55, ...ingress, ...inTarget }] },
        },
        {
          name: 'tcx_next_test',
          type: 'TCX',
          tcx: { links: [{ ...eth0, priority: 100, ...egress, ...inTarget }] },
        },
        { name: 'uprobe_test', type: 'UProbe', uprobe: { links: [{ ...malloc, containers: target }] } },
        {
          name: 'uretprobe_test',
          type: 'URetProbe',
          uretprobe: { links: [{ ...malloc, containers: target }] },
        },
        { name: 'xdp_pass_test', type: 'XDP', xdp: { links: [{ ...eth0, priority: 100, ...inTarget }] } },
      ],
    },
    'acme',
  ),
  state(
    'BpfApplicationState',
    'nsbpfapplication',
    'bpfapplication-sample',
    'ed7beed4',
    namespacedPrograms,
    'acme',
  ),
  application('clusterbpfapplication-sample', {
    globalData,
    programs: everyType({
      kprobe: [{ ...wakeUp, offset: 0 }],
      kretprobe: [wakeUp],
      tracepoint: [{ name: 'syscalls/sys_enter_openat' }],
      tc: [
        { ...primary, priority: 55, ...ingress },
        { ...eth0, priority: 100, ...egress, ...inDaemon },
      ],
      tcx: [
        { ...primary, priority: 500, ...ingress },
        { ...eth0, priority: 100, ...egress, ...inDaemon },
      ],
      uprobe: [{ ...malloc, ...inDaemonContainers }],
      uretprobe: [{ ...malloc, ...inDaemonContainers }],
      xdp: [
        { ...primary, priority: 55 },
        { ...eth0, priority: 100, ...inDaemon },
      ],
      fentry: [{ mode: 'Attach' }],
      fexit: [{ mode: 'Attach' }],
    }),
  }),
  application('clusterbpfapplication-sample-netns', {
    programs: network({
      tc: [{ ...eth0, priority: 100, ...egress, ...inTarget }],
      tcx: [{ ...eth0, priority: 100, ...egress, ...inTarget }],
      xdp: [{ ...eth0, priority: 100, ...inTarget }],
    }),
  }),
  // The same name as the one with links.
  application('clusterbpfapplication-sample', { globalData, programs: everyType({}) }),
  application('clusterbpfapplication-sample-if-dicovery', {
    globalData,
    programs: network({
      tc: [
        {
          interfaceSelector: {
            interfacesDiscoveryConfig: { interfaceAutoDiscovery: true, allowedInterfaces: ['/veth*/'] },
          },
          ...ingress,
        },
      ],
      tcx: [
        { ...all, ...ingress },
        { ...all, ...egress },
      ],
      xdp: [all],
    }),
  }),
  state('ClusterBpfApplicationState', 'clbpfapplication', 'clusterbpfapplication-sample', 'd3cc4fee', [
    program('kprobe_test', 'KProbe', { ...wakeUp, offset: 0 }),
    program('kretprobe_test', 'KRetProbe', wakeUp),
    program('tracepoint_test', 'TracePoint', { name: 'syscalls/sys_enter_openat' }),
    ...namespacedPrograms,
    program('fentry_test', 'FEntry', {}, { function: 'do_unlinkat' }),
    program('fexit_test', 'FExit', {}, { function: 'do_unlinkat' }),
  ]),
  {
    apiVersion,
    kind: 'Config',
    metadata: { name: 'bpfman-config' },
    spec: {
      agent: { healthProbePort: 8175, image: 'quay.io/bpfman/bpfman-agent:latest', logLevel: 'info' },
      configuration:
        '[database]\nmax_retries = 30\nmillisec_delay = 10000\n[signing]\nallow_unsigned = true\nverify_enabled = true\n',
      daemon: { image: 'quay.io/bpfman/bpfman:latest', logLevel: 'info' },
      namespace: 'bpfman',
    },
  },
  application('kprobe-globals-test', {
    byteCode: image('kprobe_globals'),
    globalData: {
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
    programs: [{ name: 'kprobe_globals', type: 'KProbe', kprobe: { links: [{ ...wakeUp, offset: 0 }] } }],
  }),
  application('xdp-pass-private-all-nodes', {
    byteCode: image('xdp_pass_private', { imagePullSecret: { name: 'regcred', namespace: 'bpfman' } }),
    programs: [{ name: 'pass', type: 'XDP', xdp: { links: [{ ...primary, priority: 55 }] } }],
  }),
];
