import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { JsonObject } from '../../json/json.ts';
import { created } from './builtin.fixture.ts';

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

  test('an invalid policy', () => {
    const bad = cronJob.replace('schedule:', 'concurrencyPolicy: Maybe\n  schedule:');
    assert.deepEqual(created(bad).causes, [
      'spec.concurrencyPolicy: Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"',
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

  test('defaults of a Job', () => {
    const { object, causes } = created(job);
    assert.deepEqual(causes, []);
    const { template: _template, ...spec } = object['spec'] as JsonObject;
    assert.deepEqual(spec, {
      backoffLimit: 6,
      completionMode: 'NonIndexed',
      completions: 1,
      parallelism: 1,
      podReplacementPolicy: 'TerminatingOrFailed',
      suspend: false,
    });
  });
});
