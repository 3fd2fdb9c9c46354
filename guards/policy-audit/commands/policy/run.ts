/** Runs `rampart policy run`. */
import manifest from '../../../../package.json' with { type: 'json' };
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { isManifest, readPolicies } from '../../tools/policy-source.ts';
import { renderRun } from '../../tools/render-run.ts';
import { exitCodeOf, runPolicies } from '../../tools/run-policies.ts';
import { readSubjects } from '../../tools/subjects.ts';
import type { RunOptions } from './command.ts';
import { givenExceptions } from './given-exceptions.ts';
import { namedCluster, openMeans, settingsOf, timeLimitOf } from './means.ts';
import { outputOptions } from '../../../../lib/cli/output.ts';

/** @returns the exit code */
export async function runPolicyRun(name: string, options: RunOptions): Promise<number> {
  const deadlineMs = timeLimitOf(options.policyTimeout);
  const policies = readPolicies(name, settingsOf(options.settings));
  const subjects = readSubjects(options.resource);
  if (subjects.subjects.length === 0 && subjects.problems.length === 0) {
    throw new RampartError(errorCodes.INPUT, {
      what: `there are no objects in ${options.resource.join(', ')}`,
      next: 'Name Kubernetes manifests, or a directory that contains some',
    });
  }
  const beside = isManifest(name) ? readSubjects([name]).subjects : [];
  await using means = await openMeans(options, [...subjects.subjects, ...beside], namedCluster(options));
  const exceptions = givenExceptions([...subjects.subjects, ...beside]);
  const run = await runPolicies(policies, subjects, { ...means.engine, deadlineMs, exceptions });
  process.stdout.write(
    renderRun(run, options.output, {
      ...outputOptions(100, { isWide: options.output === 'wide' }),
      all: options.all === true || options.output === 'wide',
      version: manifest.version,
    }),
  );
  return exitCodeOf(run);
}
