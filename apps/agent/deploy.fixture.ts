/**
 * A server with deploy/ in it, which allows the agent, the operator and a viewer what their roles allow; for tests.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { apiErrors } from '../../lib/apiserver/resources/api-error.ts';
import { type ApiServer, startApiServer } from '../../lib/apiserver/server.ts';
import type { Admission } from '../../lib/apiserver/verbs/admission.ts';
import type { ResourceRequest } from '../../lib/apiserver/verbs/request.ts';
import { type Guard, systemNamespace } from '../../guard/guard.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { Kinds } from '../../lib/manifests/kinds.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { guards } from '../guards.ts';
import { applyManifest } from './apply.fixture.ts';
import { kustomize, kustomizedText, type Manifest } from '../../scripts/kustomize.ts';
import { shippedLimits, type Write } from './write-limits.fixture.ts';

export const deploy: string = join(import.meta.dirname, '../../deploy');

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}
/** Each right once: `VERB RESOURCE.GROUP`, with a name where it is for one object, with ` in NAMESPACE` where it is for one only. */
export function rightsOf(name: string, directory = deploy): Set<string> {
  return rightsIn(kustomize(directory), name);
}

function rightsIn(manifests: readonly Manifest[], name: string): Set<string> {
  const rights = new Set<string>();
  for (const { kind, metadata, ...more } of manifests) {
    if (metadata.name !== name || !kind.endsWith('Role')) continue;
    const where = kind === 'Role' ? ` in ${metadata.namespace}` : '';
    const { rules = [] } = more as { readonly rules?: readonly Rule[] };
    for (const { apiGroups, resources, verbs, resourceNames = [''] } of rules) {
      for (const group of apiGroups)
        for (const resource of resources)
          for (const verb of verbs)
            for (const one of resourceNames)
              rights.add(`${verb} ${resource}.${group}${one && ` ${one}`}${where}`);
    }
  }
  return rights;
}

/** The rules that would allow a request, from the narrowest. */
function wantedFor({
  verb,
  resource,
  subresource,
  namespace: where,
  name,
  query,
}: ResourceRequest): string[] {
  const right = `${verb} ${resource.plural}${subresource === undefined ? '' : `/${subresource.name}`}.${resource.group}`;
  // A collection that asks for one name is authorized for that name (Kubernetes, "Using RBAC", referring to resources).
  const [, asked] = /^metadata\.name=([^,]+)$/.exec(query.get('fieldSelector') ?? '') ?? [];
  const one = name || (asked ?? '');
  const names = one === '' ? [right] : [`${right} ${one}`, right];
  const all = [`${verb} *.${resource.group}`];
  return [...names.flatMap((each) => (where === '' ? [each] : [`${each} in ${where}`, each])), ...all];
}

/** The limits of deploy/. By the user agent it is not known which agent asks: the node is any of these. */
function limitsOf(deployed: string, nodes: ReadonlySet<string>, refused: string[]): Admission {
  const judge = shippedLimits(kustomize(deployed));
  return {
    validate({ operation, resource, subresource, name, user }, object, oldObject) {
      const plural = `${resource.plural}${subresource === undefined ? '' : `/${subresource.name}`}`;
      const write = {
        ...{ account: user.name, operation, group: resource.group, resource: plural },
        ...({ object, oldObject } as Pick<Write, 'object' | 'oldObject'>),
      };
      const refusals = [...nodes].map((node) => judge({ ...write, node }));
      const [refusal] = refusals;
      if (refusal === undefined || refusals.includes(undefined)) return;
      refused.push(`${user.name}: ${operation} ${plural} ${name}: ${refusal}`);
      throw apiErrors.forbidden(resource, name, refusal);
    },
  };
}

export class Cluster implements AsyncDisposable {
  /** The kustomization. */
  readonly deployed: string;
  /** For what the test keeps. */
  readonly directory: string;
  readonly server: ApiServer;
  readonly used = new Map<string, Set<string>>();
  /** Rights of the agent, besides those of its roles. */
  readonly granted = new Set<string>();
  readonly refused: string[];
  /** By the name of the role, which is the user agent of who has it. */
  readonly #rights: Map<string, Set<string>>;
  readonly #stack: AsyncDisposableStack;

  private constructor(
    deployed: string,
    directory: string,
    server: ApiServer,
    refused: string[],
    stack: AsyncDisposableStack,
  ) {
    [this.deployed, this.directory, this.server, this.#stack] = [deployed, directory, server, stack];
    this.refused = refused;
    const manifests = kustomize(deployed);
    const rights = (this.#rights = new Map(
      ['rampart-agent', 'rampart-operator', 'rampart-viewer'].map((who) => [who, rightsIn(manifests, who)]),
    ));
    const handle = server.verbs.handle.bind(server.verbs);
    server.verbs.handle = (request) => {
      const who = request.userAgent ?? '';
      const allowed = rights.get(who);
      if (allowed === undefined) return handle(request);
      const wanted = wantedFor(request);
      const right = wanted.find(
        (one) => allowed.has(one) || (who === 'rampart-agent' && this.granted.has(one)),
      );
      if (right === undefined) {
        this.refused.push(
          `${who}: ${wanted.findLast((one) => !one.includes(' *.'))} (${request.namespace}/${request.name})`,
        );
        throw apiErrors.forbidden(request.resource, request.name, 'its role does not allow it');
      }
      const used = this.used.get(who) ?? new Set();
      this.used.set(who, used.add(right));
      return handle({ ...request, user: { name: who, groups: [] } });
    };
  }

  /** @param nodes - Of agents. */
  static async start(deployed = deploy, nodes: ReadonlySet<string> = new Set(['here'])): Promise<Cluster> {
    const stack = new AsyncDisposableStack();
    const directory = mkdtempSync(join(tmpdir(), 'rampart-deploy-'));
    stack.defer(() => rmSync(directory, { recursive: true, force: true }));
    const refused: string[] = [];
    const server = await startApiServer({
      admission: [limitsOf(deployed, nodes, refused)],
      dataDirectory: join(directory, 'data'),
      memory: true,
      listen: { host: '127.0.0.1', port: 0 },
      version: '0.0.0',
      logger: createLogger({ level: 'silent' }),
    });
    stack.use(server);
    return new Cluster(deployed, directory, server, refused, stack);
  }

  /** A client that may only do what the role of another kustomization allows. */
  clientOf(role: string, directory: string): KubeClient {
    this.#rights.set(role, rightsOf(role, directory));
    const access = clusterAccess(this.server);
    return this.#stack.use(new KubeClient(access, { userAgent: role, perSecond: 1000, burst: 1000 }));
  }

  /** Adds rights of a service account, as `VERB RESOURCE.GROUP`: see {@link rightsOf}. */
  allow(account: string, rights: readonly string[]): void {
    this.#rights.set(account, new Set(rights));
  }

  /**
   * Why an account may not have a token of this account of the system namespace. An account with unknown
   * rights may not.
   */
  refusalOfToken(who: string, account: string): string | undefined {
    const right = `create serviceaccounts/token. in ${systemNamespace}`;
    if (this.#rights.get(who)?.has(right) !== true) return `its role does not allow it to ${right}`;
    if (!this.#rights.has(account)) this.allow(account, []);
    return shippedLimits(kustomize(this.deployed))({
      ...{ account: who, operation: 'CREATE', group: '', resource: 'serviceaccounts/token' },
      object: { metadata: { name: account, namespace: systemNamespace } },
    });
  }

  /** kubectl may take its time, and the server is in this process. Warnings are left out. */
  async apply(directory = this.deployed, ...options: readonly string[]): Promise<string[]> {
    const args = ['--kubeconfig', this.server.kubeconfig ?? '', 'apply', ...options, '-f', '-'];
    const kubectl = spawn('kubectl', args, {
      env: { PATH: process.env['PATH'], HOME: this.directory },
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    // When it ends early, what it wrote says why.
    kubectl.stdin.on('error', () => undefined).end(kustomizedText(directory));
    const [stdout, stderr] = await Promise.all([text(kubectl.stdout), text(kubectl.stderr)]);
    assert.equal(stderr.replace(/^Warning: .*\n/gm, ''), '');
    return stdout.trim().split('\n');
  }

  /** The versions of all that is deployed. */
  async versions(): Promise<Map<string, string | undefined>> {
    const client = this.client();
    const kinds = new Kinds(client);
    const signal = AbortSignal.timeout(60_000);
    const versions = new Map<string, string | undefined>();
    for (const { apiVersion, kind, metadata } of kustomize(this.deployed)) {
      const type = await kinds.find(apiVersion, kind, signal);
      assert.ok(type, kind);
      const { resourceVersion } = (await client.get(type, metadata)).metadata;
      versions.set(`${kind} ${metadata.name}`, resourceVersion);
    }
    return versions;
  }

  /** The same for a test that is not about kubectl. */
  async install(directory = this.deployed): Promise<void> {
    const access = clusterAccess(this.server);
    using client = new KubeClient(access, { userAgent: 'test', perSecond: 1000, burst: 1000 });
    await applyManifest(client, kustomize(directory));
  }

  client(userAgent = 'test'): KubeClient {
    return this.#stack.use(new KubeClient(clusterAccess(this.server), { userAgent }));
  }

  /** This program's writes from now on; the list grows. */
  writesOf(who: string): string[] {
    const written: string[] = [];
    const { verbs } = this.server;
    const handle = verbs.handle.bind(verbs);
    verbs.handle = (request) => {
      const { verb, resource, name, userAgent } = request;
      if (userAgent === who && !/^(get|list|watch)$/.test(verb))
        written.push(`${verb} ${resource.plural} ${name}`);
      return handle(request);
    };
    return written;
  }

  /** Unused rights of the role, for both. */
  unused(): string[] {
    const manifests = kustomize(this.deployed);
    return ['rampart-agent', 'rampart-operator'].flatMap((who) =>
      [...rightsIn(manifests, who)]
        .filter((right) => this.used.get(who)?.has(right) !== true)
        .map((right) => `${who}: ${right}`),
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}

/** Whether it is for file integrity alone. */
export function isOfIntegrity(right: string): boolean {
  return (
    /(fileintegrity|file-integrity)\.openshift\.io|configmaps\.|rbac\.authorization|wgpolicyk8s|openreports/.test(
      right,
    ) ||
    right.includes('file-integrity-baseline-key') ||
    right.startsWith('rampart-operator: create secrets.') ||
    /^rampart-agent: (list|watch) nodes\./.test(right)
  );
}

/** The rights that a guard names, as rightsOf() has them. */
export function namedRights(guard: Guard, who: 'agent' | 'operator' | 'viewer'): string[] {
  return (guard.rights[who] ?? []).flatMap(
    ({ apiGroups, resources, verbs, resourceNames = [''], inSystem }) =>
      apiGroups.flatMap((group) =>
        resources.flatMap((resource) =>
          verbs.flatMap((verb) =>
            resourceNames.map(
              (name) =>
                `${verb} ${resource}.${group}${name && ` ${name}`}${inSystem ? ` in ${systemNamespace}` : ''}`,
            ),
          ),
        ),
      ),
  );
}

/** Whether other guards than this one name it, and this one does not: nothing is asked of them in a test of one guard. */
export function isOfOthers(right: string, own: Guard): boolean {
  return (['agent', 'operator'] as const).some((who) => {
    const named = right.replace(`rampart-${who}: `, '');
    if (named === right || namedRights(own, who).includes(named)) return false;
    return guards.some((guard) => guard !== own && namedRights(guard, who).includes(named));
  });
}
