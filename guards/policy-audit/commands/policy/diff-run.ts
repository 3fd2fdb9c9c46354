/** Runs `rampart policy diff`. */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { outputOptions } from '../../../../lib/cli/output.ts';
import { ClusterSubjects } from '../../tools/cluster-subjects.ts';
import { type Diff, diffPolicies, exitCodeOfDiff } from '../../tools/diff-policies.ts';
import { isManifest, type NamedPolicy, readPolicies } from '../../tools/policy-source.ts';
import { renderDiff } from '../../tools/render-diff.ts';
import type { RunOptions as Evaluating } from '../../tools/run-policies.ts';
import { readSubjects, type Subject } from '../../tools/subjects.ts';
import type { DiffOptions } from './command.ts';
import { givenExceptions } from './given-exceptions.ts';
import { type Means, namedCluster, openMeans, settingsOf, timeLimitOf } from './means.ts';

/** @returns the exit code */
export async function runPolicyDiff(old: string, next: string, options: DiffOptions): Promise<number> {
  const deadlineMs = timeLimitOf(options.policyTimeout);
  const settings = settingsOf(options.settings);
  const [before, after] = [old, next].map((name) =>
    readPolicies(name, isManifest(name) ? undefined : settings),
  );
  const beside = [old, next].flatMap((name) => (isManifest(name) ? readSubjects([name]).subjects : []));
  const policies = [before ?? [], after ?? []] as const;
  const diff =
    options.resource === undefined
      ? await inCluster(policies, beside, options, deadlineMs)
      : await ofManifests(policies, beside, { ...options, resource: options.resource }, deadlineMs);
  process.stdout.write(
    renderDiff(diff, options.output, outputOptions(100, { isWide: options.output === 'wide' })),
  );
  return exitCodeOfDiff(diff);
}

type Policies = readonly [old: readonly NamedPolicy[], next: readonly NamedPolicy[]];

async function ofManifests(
  [old, next]: Policies,
  beside: readonly Subject[],
  options: DiffOptions & { readonly resource: readonly string[] },
  deadlineMs: number,
): Promise<Diff> {
  const { subjects, problems, namespaceLabels } = readSubjects(options.resource);
  if (subjects.length === 0 && problems.length === 0) {
    throw new RampartError(errorCodes.INPUT, {
      what: `there are no objects in ${options.resource.join(', ')}`,
      next: 'Name Kubernetes manifests, or a directory that contains some',
    });
  }
  const given = [...subjects, ...beside];
  await using means = await openMeans(options, given, namedCluster(options));
  const exceptions = givenExceptions(given);
  const run = evaluating(means, { deadlineMs, exceptions });
  const diff = await diffPolicies(old, next, subjects, { ...run, namespaceLabels });
  return { ...diff, problems: [...problems, ...diff.problems] };
}

async function inCluster(
  [old, next]: Policies,
  beside: readonly Subject[],
  options: DiffOptions,
  deadlineMs: number,
): Promise<Diff> {
  await using means = await openMeans(options, beside, {
    kubeconfig: options.kubeconfig,
    context: options.context,
  });
  const { client, signal } = means;
  if (client === undefined) throw new TypeError('a cluster is called');
  const policies = [...old, ...next].map(({ policy }) => policy);
  const subjects = new ClusterSubjects(client, policies, signal);
  const [namespaceLabels, exceptions] = [await subjects.namespaceLabels(), await subjects.exceptions()];
  const run = evaluating(means, { deadlineMs, exceptions });
  const diff = await diffPolicies(old, next, subjects, { ...run, namespaceLabels });
  return { ...diff, problems: [...subjects.problems, ...diff.problems] };
}

function evaluating({ engine }: Means, more: Pick<Evaluating, 'deadlineMs' | 'exceptions'>): Evaluating {
  return { ...engine, ...more };
}
