import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { JsonObject } from '../schema/json.ts';
import { created, uid, updated } from './builtin.fixture.ts';

const cronJob = `
apiVersion: batch/v1
kind: CronJob
metadata: { name: backup }
spec:
  schedule: "*/5 0-6 * jan-mar mon,FRI"
  timeZone: Europe/Berlin
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: OnFailure
          containers:
            - { name: backup, image: backup:v1, args: [] }
`;

suite('CronJob and Job', () => {
  test('defaults of a CronJob; those of jobs come with the job', () => {
    const { object, causes } = created(cronJob);
    assert.deepEqual(causes, []);
    const { jobTemplate, ...rest } = object['spec'] as { jobTemplate: JsonObject };
    assert.deepEqual(rest, {
      schedule: '*/5 0-6 * jan-mar mon,FRI',
      timeZone: 'Europe/Berlin',
      concurrencyPolicy: 'Allow',
      failedJobsHistoryLimit: 1,
      successfulJobsHistoryLimit: 3,
      suspend: false,
    });
    assert.deepEqual(Object.keys(jobTemplate['spec'] as object), ['template']);
  });

  const schedules: readonly (readonly [string, string])[] = [
    ['* * * *', 'expected exactly 5 fields, found 4: [* * * *]'],
    ['61 * * * *', 'end of range (61) above maximum (59): 61'],
    ['* * 0 * *', 'beginning of range (0) below minimum (1): 0'],
    ['* 9-5 * * *', 'beginning of range (9) beyond end of range (5): 9-5'],
    ['*/0 * * * *', 'step of range should be a positive number: */0'],
    ['x * * * *', 'failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'],
    ['@often', 'unrecognized descriptor: @often'],
  ];
  for (const [schedule, problem] of schedules) {
    test(`the schedule ${schedule} is refused`, () => {
      const { causes } = created(cronJob.replace('*/5 0-6 * jan-mar mon,FRI', schedule));
      assert.deepEqual(causes, [`spec.schedule: Invalid value: "${schedule}": ${problem}`]);
    });
  }
  for (const schedule of [
    '0 0 1,15 * 3',
    '@hourly',
    '@every 1h30m',
    '? ? * * *',
    '5/10 * * * *',
    '0 0 * * 0-6/2',
  ]) {
    test(`the schedule ${schedule} is fine`, () => {
      assert.deepEqual(created(cronJob.replace('*/5 0-6 * jan-mar mon,FRI', schedule)).causes, []);
    });
  }

  test('a time zone that is none, a policy that is none, a name that is too long', () => {
    const bad = cronJob
      .replace('Europe/Berlin', 'Mars/Olympus')
      .replace('schedule:', 'concurrencyPolicy: Maybe\n  schedule:')
      .replace('name: backup }', `name: ${'b'.repeat(53)} }`);
    assert.deepEqual(created(bad).causes, [
      'spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"',
      `metadata.name: Invalid value: "${'b'.repeat(53)}": must be no more than 52 characters`,
      'spec.timeZone: Invalid value: "Mars/Olympus": unknown time zone Mars/Olympus',
    ]);
  });

  const job = `
apiVersion: batch/v1
kind: Job
metadata: { name: pi }
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{ name: pi, image: "perl:5.34" }]
`;

  const own = {
    'batch.kubernetes.io/controller-uid': uid,
    'batch.kubernetes.io/job-name': 'pi',
    'controller-uid': uid,
    'job-name': 'pi',
  };

  test('a job selects its own pods', () => {
    const { object, causes } = created(job);
    assert.deepEqual(causes, []);
    const { template, ...spec } = object['spec'] as { template: { metadata: JsonObject } };
    assert.deepEqual(spec, {
      backoffLimit: 6,
      completionMode: 'NonIndexed',
      completions: 1,
      parallelism: 1,
      podReplacementPolicy: 'TerminatingOrFailed',
      selector: { matchLabels: { 'batch.kubernetes.io/controller-uid': uid } },
      suspend: false,
    });
    assert.deepEqual(template.metadata, { labels: own });
  });

  test('a job without labels has all those of its template, from the first', () => {
    const withLabels = job.replace('template:', 'template:\n    metadata: { labels: { app: x } }');
    for (const [manifest, expected] of [
      [job, own],
      [withLabels, { app: 'x', ...own }],
      [withLabels.replace('name: pi }', 'name: pi, labels: { app: x } }'), { app: 'x' }],
      [job.replace('spec:', 'spec:\n  manualSelector: true\n  selector: {}'), undefined],
    ] as const) {
      const outcome = created(manifest);
      assert.deepEqual(outcome.causes, []);
      const { labels } = outcome.object['metadata'] as JsonObject;
      assert.deepEqual(labels, expected);
      const again = updated(outcome, () => undefined);
      assert.deepEqual(again.causes, []);
      assert.deepEqual(again.object, outcome.object);
    }
  });

  test('labels of the pods of another job, and selectors of other pods, are refused', () => {
    const labelled = (labels: string): string =>
      job.replace('template:', `template:\n    metadata: { labels: ${labels} }`);
    const problems = (manifest: string): string[] =>
      created(manifest).causes.map((cause) => cause.replace(/\{.*\}/, '{}'));
    assert.deepEqual(problems(labelled('{ job-name: other, controller-uid: other }')), [
      `spec.template.metadata.labels[controller-uid]: Invalid value: {}: must be '${uid}'`,
      "spec.template.metadata.labels[job-name]: Invalid value: {}: must be 'pi'",
    ]);
    assert.deepEqual(problems(job.replace('spec:', 'spec:\n  selector: { matchLabels: { app: x } }')), [
      'spec.selector: Invalid value: {}: `selector` not auto-generated',
      'spec.template.metadata.labels: Invalid value: {}: `selector` does not match template `labels`',
    ]);
    assert.deepEqual(problems(job.replace('spec:', 'spec:\n  manualSelector: true')), [
      'spec.selector: Required value',
    ]);
    const kept = created(job);
    const { template } = kept.object['spec'] as { template: { metadata: JsonObject } };
    const { 'job-name': _name, ...others } = own;
    template.metadata['labels'] = others;
    assert.deepEqual(updated(kept, () => undefined).causes, [
      "spec.template.metadata.labels[job-name]: Required value: must be 'pi'",
    ]);
  });

  test('pods of a job end', () => {
    assert.deepEqual(created(job.replace('restartPolicy: Never', 'hostname: pi')).causes, [
      'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"',
    ]);
  });

  test('the template of a job stays', () => {
    const { causes } = updated(created(job), (object) => {
      const spec = object['spec'] as { template: { spec: JsonObject } };
      spec.template.spec['hostname'] = 'other';
    });
    assert.equal(causes.length, 1);
    assert.match(causes[0] ?? '', /^spec\.template: Invalid value: .*: field is immutable$/);
  });
});
