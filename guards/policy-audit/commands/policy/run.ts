/** Runs `rampart policy run`. */
import manifest from '../../../../package.json' with { type: 'json' };
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { isManifest, readPolicies } from '../../tools/policy-source.ts';
import { renderRun } from '../../tools/render-run.ts';
import { exitCodeOf, runPolicies } from '../../tools/run-policies.ts';
import { policyExceptions } from '../../api.ts';
import { type Exceptions, exceptionsByPolicy } from '../../exceptions/exception.ts';
import { exceptionOf } from '../../exceptions/exception-file.ts';
import { type Subject, readSubjects } from '../../tools/subjects.ts';
import { failWith } from '../../../../lib/cli/failure.ts';
import type { RunOptions } from './command.ts';
import { openMeans, settingsOf } from './means.ts';
import { outputOptions } from '../../../../lib/cli/output.ts';

/** @throws {RampartError} `INPUT` */
function exceptionsIn(subjects: readonly Subject[]): Exceptions {
  return exceptionsByPolicy(
    subjects
      .filter(({ kind }) => kind.group === policyExceptions.group && kind.kind === policyExceptions.kind)
      .map(({ file, line, request }) => exceptionOf(request.object, `${file}:${line}`)),
  );
}

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
  const exceptions = exceptionsIn([...subjects.subjects, ...beside]);
  const run = await runPolicies(policies, subjects, { ...means.engine, deadlineMs, exceptions });
  process.stdout.write(
    renderRun(run, options.output, {
      ...outputOptions(100),
      all: options.all === true,
      version: manifest.version,
    }),
  );
  return exitCodeOf(run);
}
