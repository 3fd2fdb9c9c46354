/** Runs `rampart policy diff`. */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { outputOptions } from '../../../../lib/cli/output.ts';
import { ClusterSubjects } from '../../tools/cluster-subjects.ts';
import { type Diff, diffPolicies, exitCodeOfDiff, type PolicyVersion } from '../../tools/diff-policies.ts';
import { isManifest, type NamedPolicy, readPolicies } from '../../tools/policy-source.ts';
import { renderDiff } from '../../tools/render-diff.ts';
import { readSubjects, type Subject } from '../../tools/subjects.ts';
import type { DiffOptions } from './command.ts';
import { givenExceptions } from './given-exceptions.ts';
import { type Means, namedCluster, openMeans, settingsOf, timeLimitOf } from './means.ts';

/** @returns the exit code */
export async function runPolicyDiff(old: string, next: string, options: DiffOptions): Promise<number> {
  const deadlineMs = timeLimitOf(options.policyTimeout);
  const settings = settingsOf(options.settings);
  const versions = [versionOf(old, settings), versionOf(next, settings)] as const;
  const diff =
    options.resource === undefined
      ? await inCluster(versions, options, deadlineMs)
      : await ofManifests(versions, { ...options, resource: options.resource }, deadlineMs);
  process.stdout.write(
    renderDiff(diff, options.output, outputOptions(100, { isWide: options.output === 'wide' })),
  );
  return exitCodeOfDiff(diff);
}

interface Version {
  readonly policies: readonly NamedPolicy[];
  /** Parameters, exceptions and other objects in the policies' file: they apply to this version only. */
  readonly beside: readonly Subject[];
}

function versionOf(name: string, settings: Parameters<typeof readPolicies>[1]): Version {
  if (!isManifest(name)) return { policies: readPolicies(name, settings), beside: [] };
  return { policies: readPolicies(name, undefined), beside: readSubjects([name]).subjects };
}

async function ofManifests(
  versions: readonly [old: Version, next: Version],
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
  await using stack = new AsyncDisposableStack();
  const opened = async ({ policies, beside }: Version): Promise<OpenVersion> => {
    const given = [...beside, ...subjects];
    const means = stack.use(await openMeans(options, given, namedCluster(options)));
    const exceptions = givenExceptions(given);
    return { policies, means, options: { ...means.engine, deadlineMs, exceptions } };
  };
  const [old, next] = [await opened(versions[0]), await opened(versions[1])];
  const { signal } = old.means;
  const diff = await diffPolicies(old, next, subjects, { namespaceLabels, signal });
  return { ...diff, problems: [...problems, ...diff.problems] };
}

async function inCluster(
  versions: readonly [old: Version, next: Version],
  options: DiffOptions,
  deadlineMs: number,
): Promise<Diff> {
  const { kubeconfig, context } = options;
  await using stack = new AsyncDisposableStack();
  const open = async ({ beside }: Version): Promise<Means> =>
    stack.use(await openMeans(options, beside, { kubeconfig, context }));
  const [before, after] = [await open(versions[0]), await open(versions[1])];
  const { client, signal } = before;
  if (client === undefined) throw new TypeError('a cluster is called');
  const policies = versions.flatMap((version) => version.policies.map(({ policy }) => policy));
  const subjects = new ClusterSubjects(client, policies, signal);
  const [namespaceLabels, inAll] = [await subjects.namespaceLabels(), await subjects.exceptions()];
  const opened = ({ policies: own, beside }: Version, { engine }: Means): PolicyVersion => {
    const exceptions = givenExceptions(beside, inAll);
    return { policies: own, options: { ...engine, deadlineMs, exceptions } };
  };
  const [old, next] = [opened(versions[0], before), opened(versions[1], after)];
  const diff = await diffPolicies(old, next, subjects, { namespaceLabels, signal });
  return { ...diff, problems: [...subjects.problems, ...diff.problems] };
}

interface OpenVersion extends PolicyVersion {
  readonly means: Means;
}
