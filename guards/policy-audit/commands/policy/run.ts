/** Runs `rampart policy run`. */
import manifest from '../../../../package.json' with { type: 'json' };
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { isManifest, readPolicies } from '../../tools/policy-source.ts';
import { renderRun } from '../../tools/render-run.ts';
import { exitCodeOf, runPolicies } from '../../tools/run-policies.ts';
import { readSubjects } from '../../tools/subjects.ts';
import { failWith } from '../../../../lib/cli/failure.ts';
import type { RunOptions } from './command.ts';
import { openMeans, settingsOf } from './means.ts';
import { outputOptions } from '../../../../lib/cli/output.ts';

/** @returns the exit code */
export async function runPolicyRun(name: string, options: RunOptions): Promise<number> {
  failWith(2);
  const deadlineMs = Number(options.policyTimeout) * 1000;
  if (!(deadlineMs > 0 && deadlineMs <= 300_000)) {
    throw new RampartError(errorCodes.INPUT, {
      what: `--policy-timeout ${options.policyTimeout} is not a time of up to 300 s`,
    });
  }
  const policies = readPolicies(name, settingsOf(options.settings));
  const subjects = readSubjects(options.resource);
  if (subjects.subjects.length === 0 && subjects.problems.length === 0) {
    throw new RampartError(errorCodes.INPUT, {
      what: `there are no objects in ${options.resource.join(', ')}`,
      next: 'Name Kubernetes manifests, or a directory that contains some',
    });
  }
  const beside = isManifest(name) ? readSubjects([name]).subjects : [];
  await using means = await openMeans(options, [...subjects.subjects, ...beside], options.kubeconfig);
  const run = await runPolicies(policies, subjects, { ...means.engine, deadlineMs });
  process.stdout.write(
    renderRun(run, options.output, {
      ...outputOptions(100),
      all: options.all === true,
      version: manifest.version,
    }),
  );
  return exitCodeOf(run);
}
