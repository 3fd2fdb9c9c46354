import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { FileIntegrity, FileIntegrityNodeStatus } from '../api.ts';
import type { NodeView, SectionReport } from '../../../guard/status-section.ts';
import { integrityReports } from './examine.ts';
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
  const metadata = { namespace: 'openshift-file-integrity', name };
  const spec = { config: {}, nodeSelector: { watched: 'yes' }, tolerations: [] };
  const integrity = { metadata, spec, status } as unknown as FileIntegrity;
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

function sectionOf(integrities: readonly IntegrityView[], nodes: readonly NodeView[] = []): SectionReport {
  return integritySection(integrityReports(integrities, nodes), nowMs);
}

function reportsOf({ fields }: SectionReport): readonly IntegrityReport[] {
  return fields['fileIntegrities'] as readonly IntegrityReport[];
}

suite('file integrity in the status', () => {
  test('nothing has changed; a changed file is no fault of the guard', () => {
    const intact = sectionOf([view('example', [node('n1', 'Succeeded')])]);
    assert.deepEqual([intact.guarded, reportsOf(intact)[0]?.intact], [true, true]);
    const section = sectionOf([view('example', [changed, node('n1', 'Succeeded')])]);
    assert.deepEqual([section.guarded, section.isAsked], [true, true]);
    const [report] = reportsOf(section);
    assert.equal(report?.intact, false);
    assert.deepEqual(report.nodes[1], {
      name: 'n2',
      condition: 'Failed',
      lastProbeTime: '2026-11-21T11:55:00Z',
      filesAdded: 0,
      filesChanged: 4,
      filesRemoved: 1,
      findingCount: 5,
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
    const [report] = integrityReports([view('a', [], { phase: 'Pending' })], nodes);
    assert.deepEqual(report?.problems, [
      {
        message:
          'No node is selected by spec.nodeSelector watched=yes and spec.tolerations (there are n1, n2).',
      },
    ]);
  });

  for (const [what, one, problems] of [
    ['the operator is away', view('a', [], {}), ['The operator has not processed it yet.']],
    ['nothing runs', view('a', [], { phase: 'Pending' }), ['Nothing runs yet.']],
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
      assert.equal(section.guarded, false);
      const [report] = reportsOf(section);
      assert.deepEqual(
        report?.problems.map(({ node: of, message }) => (of === undefined ? message : `${of} ${message}`)),
        problems,
      );
      assert.equal(report?.intact, null);
    });
  }

  test('scans that are held are no problem, and are told', () => {
    const held = { type: 'Paused', status: 'True', reason: 'HoldOff', message: 'no', lastTransitionTime: '' };
    const section = sectionOf([
      view('a', [node('n1', 'Succeeded')], { phase: 'Active', conditions: [held] as never }),
    ]);
    assert.deepEqual([section.guarded, reportsOf(section)[0]?.paused], [true, true]);
    assert.match(section.table(plain), /a {2}paused {2}n1/);
  });

  test('what may not be read is not known, and no reason to say no', () => {
    const { fields, guarded, isAsked, headline, table } = integritySection(undefined, nowMs);
    assert.deepEqual([fields['fileIntegrities'], guarded, isAsked], [null, true, false]);
    assert.deepEqual([headline(plain), table(plain)], ['', '']);
  });

  test('nodes that it is for and nobody tells of; not those that it is not for', () => {
    const labels = { watched: 'yes' };
    const taints = [{ key: 'a', effect: 'NoSchedule' }];
    const nodes = [
      { name: 'n1', kernel: undefined, labels },
      { name: 'n2', kernel: undefined, labels },
      { name: 'n3', kernel: undefined, labels: { watched: 'no' } },
      { name: 'n4', kernel: undefined, labels, taints },
      ...['n8', 'n7', 'n6'].map((name) => ({ name, kernel: undefined, labels })),
    ];
    const messages = (phase: 'Active' | 'Initializing'): readonly string[] =>
      reportsOf(
        sectionOf([view('a', [node('n1', 'Succeeded'), node('n2', undefined)], { phase })], nodes),
      ).flatMap(({ problems }) => problems.map(({ message }) => message));
    assert.deepEqual(messages('Active'), ['No agent has reported on nodes n2, n6, n7 and 1 more.']);
    assert.deepEqual(messages('Initializing'), []);
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
          lastTransitionTime: '',
        },
      ],
    });
    const section = sectionOf([view('example', [changed, node('n1', 'Succeeded')]), error]);
    assert.equal(
      section.headline(plain),
      'Files have changed on 1 of 2 nodes. 1 of 2 FileIntegrities is not guarded as requested.',
    );
    assert.equal(
      section.table(plain),
      `\
FILE INTEGRITY                    PHASE   NODE  RESULT     CHECKED    CHANGES               AT ONCE
openshift-file-integrity/broken   Error   -
    line 3\\x1b
openshift-file-integrity/example  Active  n1    Succeeded  5 min ago  -                     with author
openshift-file-integrity/example  Active  n2    Failed     5 min ago  4 changed, 1 removed  without author
    /etc/passwd changed (size, sha256) 10 s ago by /usr/bin/vi /etc/passwd (pid
    41, uid 0)
    and 4 more
    node n2: The author of changes is unknown: this kernel refuses the sensor.`,
    );
  });

  test('what is missed between scans, and for whom', () => {
    const busy = { ...sensor, lostEvents: 2, lostAuthors: 7, directoriesWithoutAuthors: 1 };
    const nodes = [node('n1', 'Failed', {}, busy), node('n2', 'Succeeded')];
    const lines = sectionOf([view('example', nodes)])
      .table({ ...plain, widthColumns: 120 })
      .split('\n');
    assert.deepEqual(
      lines.filter((line) => line.startsWith('    node ')).map((line) => line.trim()),
      [
        'node n1: Events were lost; a full scan followed.',
        'node n1: Records of the authors of changes were lost; these changes have no author.',
        'node n1: Changes in 1 directory beyond the capacity of the sensor have no author.',
      ],
    );
  });

  test('of many nodes those that something is the matter with', () => {
    const nodes = Array.from({ length: 30 }, (_, index) =>
      node(`n${index}`, index === 7 ? 'Failed' : 'Succeeded', {}, index % 2 === 0 ? inotify : sensor),
    );
    const section = sectionOf([view('example', nodes)]);
    const text = section.table(plain);
    assert.equal(section.headline(plain), 'Files have changed on 1 of 30 nodes.');
    assert.equal(text.split('\n').filter((line) => line.startsWith('openshift-')).length, 1);
    assert.match(text, /nodes n0, n10, n12 and 12 more: The author of changes is unknown/);
    assert.match(text, /29 more nodes without changes/);
    const all = sectionOf([
      view(
        'example',
        nodes.map((one) => ({ ...one, ...node(one.nodeName, 'Succeeded') })),
      ),
    ]);
    assert.equal(all.headline(plain), 'No file has changed on 30 nodes.');
    assert.match(all.table(plain), /Active {2}30 nodes$/m);
  });
});
