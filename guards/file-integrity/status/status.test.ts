import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { FileIntegrity, FileIntegrityNodeStatus } from '../api.ts';
import type { NodeView, SectionReport } from '../../../guard/status-section.ts';
import type { Processes } from '../../../guard/guarded.ts';
import { processesOn, processWith, running } from '../../../guard/processes.fixture.ts';
import { type Verdict, verdictOn } from '../../../guard/verdict.ts';
import { fileIntegrity } from '../guard.ts';
import { examineIntegrities } from './examine.ts';
import { nodeFacts } from '../results/node-facts.ts';
import type { IntegrityReport } from './report.ts';
import { integritySection } from './section.ts';
import type { IntegrityNodeView, IntegrityView } from './snapshot.ts';

const nowMs = Date.UTC(2026, 10, 21, 12);
const plain = { widthColumns: 80, colour: false };

type Status = FileIntegrity['status'];

function view(
  name: string,
  nodes: readonly IntegrityNodeView[] = [],
  status: Status = { phase: 'Active' },
): IntegrityView {
  const metadata = { namespace: 'openshift-file-integrity', name, uid: `${name}-of-2026`, generation: 2 };
  const spec = { config: {}, nodeSelector: { watched: 'yes' }, tolerations: [] };
  const configured = {
    type: 'Configured',
    status: 'True',
    reason: 'Ok',
    message: '',
    lastTransitionTime: '',
    observedGeneration: 2,
  };
  const conditions = [...(status?.conditions ?? [configured])];
  const integrity = { metadata, spec, status: { ...status, conditions } } as unknown as FileIntegrity;
  return { group: 'fileintegrity.openshift.io', integrity, nodes };
}

const sensor = {
  events: 'sensor',
  reason: '',
  watchedDirectories: 900,
  unwatchedDirectories: 0,
  lostEvents: 0,
  lostAuthors: 0,
  directoriesWithoutAuthors: 0,
} as const;
const inotify = { ...sensor, events: 'inotify', reason: 'this kernel refuses the sensor.' } as const;

function node(
  nodeName: string,
  condition: 'Succeeded' | 'Failed' | 'Errored' | undefined,
  more: Partial<FileIntegrityNodeStatus['lastResult'] & object> = {},
  detection: IntegrityNodeView['detection'] = sensor,
): IntegrityNodeView {
  const lastProbeTime = '2026-11-21T11:55:00Z';
  return {
    nodeName,
    lastResult: condition && { condition, lastProbeTime, ...more },
    detection,
    findings: [],
    findingCount: 0,
    packageUpdates: [],
    reading: undefined,
  };
}

const changed: IntegrityNodeView = {
  ...node('n2', 'Failed', { filesChanged: 4, filesRemoved: 1 }, inotify),
  findings: [
    {
      path: '/etc/passwd',
      change: 'changed',
      attributes: ['size', 'sha256'],
      seen: '2026-11-21T11:59:50Z',
      seenBy: 'event',
      author: {
        binary: '/usr/bin/vi',
        arguments: '/etc/passwd',
        cwd: '/',
        uid: 0,
        gid: 0,
        pid: 41,
        ppid: 1,
        parentBinary: '',
        relation: 'host',
      },
    },
  ],
  findingCount: 5,
};

/** Each agent has seen the present versions of these FileIntegrities. */
function sectionOf(
  integrities: readonly IntegrityView[],
  nodes: readonly NodeView[] = [],
  progress?: Parameters<typeof nodeFacts>[0]['progress'],
): SectionReport {
  const followed = integrities.map(({ integrity: { metadata } }) => ({
    uid: metadata.uid ?? '',
    generation: 2,
  }));
  const names = new Set(integrities.flatMap((one) => one.nodes.map(({ nodeName }) => nodeName)));
  for (const { name } of nodes) names.add(name);
  const facts = nodeFacts({ followed, progress });
  const process = processWith({ 'file-integrity': { state: 'running', reason: '', facts } });
  const agents = [...names].map((nodeName) => ({ ...process, nodeName, renewedSecondsAgo: 1 }));
  return integritySection(examineIntegrities(integrities, { nodes, agents }), nowMs);
}

const everyNode = Array.from({ length: 40 }, (_, at) => `n${at}`);

function verdictOf({ objects = [] }: SectionReport, processes: Partial<Processes> = {}): Verdict {
  return verdictOn(fileIntegrity, objects, { ...processesOn(everyNode, 'file-integrity'), ...processes });
}

function reportsOf(section: SectionReport): readonly IntegrityReport[] {
  return section.fields(verdictOf(section))['fileIntegrities'] as readonly IntegrityReport[];
}

function texts(section: SectionReport): string[] {
  return verdictOf(section).problems.map(({ node: of, why }) => (of === null ? why : `${of} ${why}`));
}

suite('file integrity in the status', () => {
  test('nothing has changed; a changed file is not a fault of the guard', () => {
    const intact = sectionOf([view('example', [node('n1', 'Succeeded')])]);
    assert.deepEqual([verdictOf(intact).failing, reportsOf(intact)[0]?.intact], [0, true]);
    const section = sectionOf([view('example', [changed, node('n1', 'Succeeded')])]);
    assert.equal(verdictOf(section).failing, 0);
    const [report] = reportsOf(section);
    assert.equal(report?.intact, false);
    assert.deepEqual(report.nodes[1], {
      name: 'n2',
      condition: 'Failed',
      lastProbeTime: '2026-11-21T11:55:00Z',
      progress: null,
      filesAdded: 0,
      filesChanged: 4,
      filesRemoved: 1,
      findingCount: 5,
      packageUpdates: [],
      reading: null,
      findings: [
        {
          path: '/etc/passwd',
          change: 'changed',
          attributes: ['size', 'sha256'],
          seen: '2026-11-21T11:59:50Z',
          seenBy: 'event',
          author: '/usr/bin/vi /etc/passwd (pid 41, uid 0)',
        },
      ],
      detection: inotify,
    });
  });

  test('a nodeSelector that no node has is named', () => {
    const nodes = [{ name: 'n2' }, { name: 'n1', labels: { watched: 'no' } }] as unknown as NodeView[];
    assert.deepEqual(texts(sectionOf([view('a', [], { phase: 'Pending' })], nodes)), [
      'no node is selected by watched=yes and spec.tolerations (there are n1, n2)',
    ]);
  });

  for (const [what, one, problems] of [
    [
      'the operator has not seen it',
      view('a', [node('n1', 'Succeeded')], { conditions: [] }),
      ['the operator has not reported on it, although it writes the results into the API'],
    ],
    [
      'no result',
      view('a', [node('n1', undefined)], { phase: 'Pending' }),
      ['n1 there is no result of this node yet'],
    ],
    [
      'the configuration has an error',
      view('a', [], {
        phase: 'Error',
        conditions: [
          {
            type: 'Configured',
            status: 'False',
            reason: 'BadConf',
            message: 'line 3',
            lastTransitionTime: '',
            observedGeneration: 2,
          },
          { type: 'Paused', status: 'False', reason: 'NoHoldOff', message: '', lastTransitionTime: '' },
        ],
      }),
      ['line 3'],
    ],
    [
      'a node has an error',
      view('a', [node('n1', 'Errored', { errorMessage: 'the baseline is damaged' })], {
        phase: 'Error',
        nodeStatus: [{ nodeName: 'n1', condition: 'Errored', lastProbeTime: '' }],
      }),
      ['n1 the baseline is damaged'],
    ],
  ] as const) {
    test(`not looked after: ${what}`, () => {
      const section = sectionOf([one]);
      assert.deepEqual(texts(section), problems);
      assert.equal(reportsOf(section)[0]?.guarded, false);
    });
  }

  test('a FileIntegrity whose scans are held is not guarded', () => {
    const held = {
      type: 'Paused',
      status: 'True',
      reason: 'HoldOff',
      message: 'No scans run.',
      lastTransitionTime: '',
    };
    const configured = { ...held, type: 'Configured', observedGeneration: 2 };
    const section = sectionOf([
      view('a', [node('n1', 'Succeeded')], { phase: 'Active', conditions: [held, configured] as never }),
    ]);
    const { problems } = verdictOf(section);
    assert.deepEqual(
      problems.map(({ kind, why }) => [kind, why]),
      [['paused', 'No scans run']],
    );
    assert.equal(reportsOf(section)[0]?.paused, true);
    assert.match(section.table(verdictOf(section), plain), /a {2}paused {2}n1/);
  });

  test('unreadable status is unknown, not a failure', () => {
    const section = integritySection(undefined, nowMs);
    const verdict = verdictOf(section);
    assert.deepEqual([section.fields(verdict)['fileIntegrities'], section.objects], [null, undefined]);
    assert.deepEqual([section.headline(verdict, plain), section.table(verdict, plain)], ['', '']);
  });

  test('lists selected nodes without a report, but not unselected ones', () => {
    const labels = { watched: 'yes' };
    const taints = [{ key: 'a', effect: 'NoSchedule' }];
    const nodes = [
      { name: 'n1', kernel: undefined, labels },
      { name: 'n2', kernel: undefined, labels },
      { name: 'n3', kernel: undefined, labels: { watched: 'no' } },
      { name: 'n4', kernel: undefined, labels, taints },
      ...['n8', 'n7', 'n6'].map((name) => ({ name, kernel: undefined, labels })),
    ];
    const section = sectionOf([view('a', [node('n1', 'Succeeded'), node('n2', undefined)])], nodes);
    const none = 'there is no result of this node yet';
    assert.deepEqual(
      texts(section),
      ['n2', 'n6', 'n7', 'n8'].map((name) => `${name} ${none}`),
    );
  });

  test('a killed agent and a killed operator: what they said does not count', () => {
    const section = sectionOf([
      view('a', [node('n1', 'Errored', { errorMessage: 'why' }), node('n2', 'Succeeded')]),
    ]);
    const dead = processWith(running('file-integrity'), { isRenewed: false });
    const kinds = (processes: Partial<Processes>): string[] =>
      verdictOf(section, processes).problems.map(({ kind, node: of }) => `${kind} ${of}`);
    const { agents = new Map() } = processesOn(['n2'], 'file-integrity');
    assert.deepEqual(kinds({ agents: new Map([...agents, ['n1', dead]]) }), ['agent-dead n1']);
    assert.deepEqual(kinds({ operator: dead }), ['operator-dead null', 'errored n1']);
  });

  test('an agent that has not seen the latest version', () => {
    const { integrity, ...rest } = view('a', [node('n1', 'Succeeded')]);
    const edited = {
      ...rest,
      integrity: { ...integrity, metadata: { ...integrity.metadata, generation: 3 } },
    };
    assert.deepEqual(
      verdictOf(sectionOf([edited])).problems.map(({ kind, node: of }) => `${kind} ${of}`),
      ['outdated null', 'outdated n1'],
    );
  });

  test('a first baseline that is being made: how far it is', () => {
    const object = 'openshift-file-integrity/a';
    const since = '2026-11-21T11:59:20Z';
    const progress = { object, step: 'init', since, entries: 12_000, entriesPerSecond: 300 } as const;
    const section = sectionOf([view('a', [node('n1', undefined)])], [], progress);
    const verdict = verdictOf(section);
    assert.deepEqual(reportsOf(section)[0]?.nodes[0]?.progress, progress);
    assert.match(
      section.table(verdict, { ...plain, widthColumns: 200 }),
      /not yet: 12000 entries, 300\/s, began 40 s ago/,
    );
    assert.equal(
      section.headline(verdict, plain),
      'The first results of 1 of 1 FileIntegrity objects are not there yet.',
    );
  });

  test('for people', () => {
    const error = view('broken', [], {
      phase: 'Error',
      conditions: [
        {
          type: 'Configured',
          status: 'False',
          reason: 'BadConf',
          message: 'line 3\u001b',
          lastTransitionTime: '2026-11-21T11:00:00Z',
          observedGeneration: 2,
        },
      ],
    });
    const section = sectionOf([view('example', [changed, node('n1', 'Succeeded')]), error]);
    assert.equal(
      section.headline(verdictOf(section), plain),
      'Files have changed on 1 of 2 nodes. 1 of 2 FileIntegrity objects is not being checked.',
    );
    assert.equal(
      section.table(verdictOf(section), plain),
      `\
FILE INTEGRITY                    PHASE   NODE  RESULT     CHECKED    CHANGES               AT ONCE
openshift-file-integrity/broken   Error   -
    spec.config: line 3\\x1b (60 min ago). Correct the configuration.
openshift-file-integrity/example  Active  n1    Succeeded  5 min ago  -                     with author
openshift-file-integrity/example  Active  n2    Failed     5 min ago  4 changed, 1 removed  without author
    /etc/passwd changed (size, sha256) 10 s ago by /usr/bin/vi /etc/passwd (pid
    41, uid 0)
    and 4 more
    node n2: The author of changes is unknown: this kernel refuses the sensor.`,
    );
  });

  test('names what is missed between scans, and for which nodes', () => {
    const busy = { ...sensor, lostEvents: 2, lostAuthors: 7, directoriesWithoutAuthors: 1 };
    // For findings that are only counted, it is unknown whether they have an author.
    const nodes = [{ ...node('n1', 'Failed', {}, busy), findingCount: 1 }, node('n2', 'Succeeded')];
    const section = sectionOf([view('example', nodes)]);
    const lines = section.table(verdictOf(section), { ...plain, widthColumns: 120 }).split('\n');
    assert.deepEqual(
      lines.filter((line) => line.startsWith('    node ')).map((line) => line.trim()),
      [
        'node n1: Events were lost; a full scan followed.',
        'node n1: Records of the authors of changes were lost; these changes have no author.',
        'node n1: Changes in 1 directory beyond the capacity of the sensor have no author.',
      ],
    );
  });

  test('why updates of packages are not recognized, where anything else would be seen', () => {
    const packagesReason = 'the node has no database of dpkg';
    const nodes = [
      ...['n1', 'n2'].map((name) => node(name, 'Succeeded', {}, { ...sensor, packagesReason })),
      node('n3', 'Succeeded', {}, { ...inotify, packagesReason }),
    ];
    const section = sectionOf([view('fi', nodes)]);
    assert.match(
      section.table(verdictOf(section), { ...plain, widthColumns: 120 }),
      /^ +nodes n1, n2: Updates of packages are not recognized: the node has no database of dpkg$/m,
    );
    assert.equal(verdictOf(section).failing, 0);
  });

  test('an update of a package is one line, whether it is explained or accepted', () => {
    const time = '2026-11-21T11:59:50Z';
    const packageUpdates = [
      { update: 'old 1 -> 2', files: 1, time, accepted: true },
      { update: 'tool 1 -> 2', files: 4, time, accepted: false },
    ];
    const one = { ...changed, findingCount: 5, packageUpdates };
    const section = sectionOf([view('fi', [one])]);
    const text = section.table(verdictOf(section), { ...plain, widthColumns: 120 });
    assert.match(
      text,
      /\/etc\/passwd changed .*\n +4 files explained by tool 1 -> 2 10 s ago\n +1 file accepted: old 1 -> 2 10 s ago/,
    );
    assert.doesNotMatch(text, /more/);
  });

  test('a large file that is still being read is named', () => {
    const textOf = (reading: IntegrityNodeView['reading']): string => {
      const section = sectionOf([view('fi', [{ ...node('n1', 'Succeeded'), reading }])]);
      return section.table(verdictOf(section), { ...plain, widthColumns: 120 });
    };
    assert.match(textOf({ count: 1, files: ['/srv/disk.img'] }), /^ +still being read: \/srv\/disk\.img$/m);
    assert.match(
      textOf({ count: 3, files: ['/a', '/b', '/c'] }),
      /still being read: \/a and 2 other large files$/m,
    );
  });

  test('that authors were lost concerns findings without one', () => {
    const lost = { ...sensor, lostAuthors: 7 };
    const [first] = changed.findings;
    assert.ok(first !== undefined);
    const { author: _lost, ...alone } = first;
    const textOf = (findings: IntegrityNodeView['findings']): string => {
      const one = { ...node('n1', 'Failed', {}, lost), findings, findingCount: findings.length };
      const section = sectionOf([view('example', [one])]);
      return section.table(verdictOf(section), { ...plain, widthColumns: 120 });
    };
    assert.doesNotMatch(textOf([first]), /authors/);
    assert.doesNotMatch(textOf([first, { ...alone, seenBy: 'scan' }]), /authors/);
    assert.match(textOf([first, alone]), /Records of the authors of changes were lost/);
  });

  test('who changed the content comes first, whoever touched it since', () => {
    const [first] = changed.findings;
    assert.ok(first?.author !== undefined);
    const chmod = { ...first.author, binary: '/usr/bin/chmod', arguments: '644 /etc/passwd', pid: 99 };
    const last = { seen: '2026-11-21T11:59:55Z', seenBy: 'event', author: chmod } as const;
    const touched = { ...node('n1', 'Failed'), findings: [{ ...first, last }], findingCount: 1 };
    const section = sectionOf([view('example', [touched])]);
    assert.match(
      section.table(verdictOf(section), { ...plain, widthColumns: 200 }),
      /passwd changed \(size, sha256\) 10 s ago by \/usr\/bin\/vi \/etc\/passwd \(pid 41, uid 0\); touched 5 s ago by \/usr\/bin\/chmod 644 \/etc\/passwd \(pid 99, uid 0\)/,
    );
    const [report] = reportsOf(section);
    assert.deepEqual(report?.nodes[0]?.findings[0]?.last, {
      ...{ seen: last.seen, seenBy: 'event' },
      author: '/usr/bin/chmod 644 /etc/passwd (pid 99, uid 0)',
    });
  });

  test('of many nodes, lists those with problems', () => {
    const nodes = Array.from({ length: 30 }, (_, index) =>
      node(`n${index}`, index === 7 ? 'Failed' : 'Succeeded', {}, index % 2 === 0 ? inotify : sensor),
    );
    const section = sectionOf([view('example', nodes)]);
    const text = section.table(verdictOf(section), plain);
    assert.equal(section.headline(verdictOf(section), plain), 'Files have changed on 1 of 30 nodes.');
    assert.equal(text.split('\n').filter((line) => line.startsWith('openshift-')).length, 1);
    assert.match(text, /nodes n0, n10, n12 and 12 more: The author of changes is unknown/);
    assert.match(text, /29 more nodes without changes/);
    const all = sectionOf([
      view(
        'example',
        nodes.map((one) => ({ ...one, ...node(one.nodeName, 'Succeeded') })),
      ),
    ]);
    assert.equal(all.headline(verdictOf(all), plain), 'No file has changed on 30 nodes.');
    assert.match(all.table(verdictOf(all), plain), /Active {2}30 nodes$/m);
  });
});
