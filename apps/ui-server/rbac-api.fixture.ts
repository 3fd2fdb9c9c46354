/**
 * An API server with RBAC, TokenReviews and SubjectAccessReviews, which the embedded one has not: in front of that, it decides by the
 * objects of RBAC that it has, and answers as Kubernetes 1.36 does. For tests.
 */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { request as send } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';

import { readPath } from '../../lib/apiserver/http/request-path.ts';
import { type ApiServer, startApiServer } from '../../lib/apiserver/server.ts';
import type { PodLogs } from '../../lib/apiserver/verbs/pod-logs.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { clusterKind, type KubeObject, namespacedKind } from '../../lib/kube/object/object.ts';
import { createServer } from '../../lib/net/node-http.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';

interface Role extends KubeObject {
  readonly rules?: readonly {
    readonly apiGroups?: readonly string[];
    readonly resources?: readonly string[];
    readonly verbs: readonly string[];
    readonly resourceNames?: readonly string[];
  }[];
}

interface Binding extends KubeObject {
  readonly roleRef: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly {
    readonly kind: string;
    readonly name: string;
    readonly namespace?: string;
  }[];
}

interface Attributes {
  readonly verb?: string;
  readonly group?: string;
  readonly resource?: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

interface User {
  readonly user: string;
  readonly groups: readonly string[];
}

/** Those of TokenReview, SubjectAccessReview and SelfSubjectAccessReview together. */
interface ReviewSpec extends Partial<User> {
  readonly token?: string;
  readonly resourceAttributes?: Attributes;
}

const group = 'rbac.authorization.k8s.io';
const clusterRoles = clusterKind<Role>(group, 'clusterroles', 'ClusterRole');
const clusterRoleBindings = clusterKind<Binding>(group, 'clusterrolebindings', 'ClusterRoleBinding');
const roles = namespacedKind<Role>(group, 'roles', 'Role');
const bindings = namespacedKind<Binding>(group, 'rolebindings', 'RoleBinding');

export class RbacApi implements AsyncDisposable {
  readonly #directory: TemporaryDirectory;
  readonly #api: ApiServer;
  readonly #server: Server;
  readonly client: KubeClient;
  /** User names by token. */
  readonly tokens = new Map<string, string>();
  /** Refused requests, and each review: `USER VERB RESOURCE.GROUP/SUBRESOURCE in NAMESPACE`. */
  readonly refused: string[] = [];
  readonly reviews: string[] = [];
  /** Reviews are answered with an error. */
  isFailing = false;
  #rbac: Promise<readonly [Role[], Binding[], Role[], Binding[]]> | undefined;

  private constructor(directory: TemporaryDirectory, api: ApiServer) {
    this.#directory = directory;
    this.#api = api;
    this.client = new KubeClient(clusterAccess(api), { perSecond: 1000, burst: 1000 });
    this.#server = createServer((request, response) => {
      response.on('error', () => undefined);
      this.#answer(request, response).catch((error: unknown) => {
        if (!response.headersSent) refuse(response, 500, 'InternalError', String(error));
        else response.destroy();
      });
    });
  }

  static async start(podLogs: PodLogs): Promise<RbacApi> {
    const directory = new TemporaryDirectory();
    const api = await startApiServer({
      ...{ dataDirectory: directory.at('data'), memory: true, listen: { host: '127.0.0.1', port: 0 } },
      ...{ version: '0.0.0', podLogs, logger: createLogger({ level: 'silent' }) },
    });
    const one = new RbacApi(directory, api);
    one.#server.listen(0, '127.0.0.1');
    await once(one.#server, 'listening');
    return one;
  }

  /** The path of a kubeconfig for whoever has this token. */
  kubeconfigOf(token: string): string {
    const { port } = this.#server.address() as AddressInfo;
    const path = this.#directory.at(`kubeconfig-${token}`);
    const config = {
      clusters: [{ name: 'c', cluster: { server: `http://127.0.0.1:${port}` } }],
      users: [{ name: 'u', user: { token } }],
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'c',
    };
    writeFileSync(path, JSON.stringify(config));
    return path;
  }

  /** After a change of RBAC. */
  forget(): void {
    this.#rbac = undefined;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const name = this.tokens.get(/^Bearer (.*)$/.exec(request.headers.authorization ?? '')?.[1] ?? '');
    if (name === undefined) return refuse(response, 401, 'Unauthorized', 'Unauthorized');
    const url = new URL(request.url ?? '/', 'http://api');
    const path = readPath(url.pathname);
    if (path.kind === 'plain') return this.#forward(request, response);
    const attributes: Attributes = {
      ...{ verb: verbOf(request.method, url, path.name), group: path.group, resource: path.plural },
      ...{ subresource: path.subresource, namespace: path.namespace, name: path.name },
    };
    const user: User = { user: name, groups: groupsOf(name) };
    if (!(await this.#allows(user, attributes))) {
      this.refused.push(reported(name, attributes));
      return refuse(response, 403, 'Forbidden', forbidden(name, attributes));
    }
    if (!/^(?:token|subjectaccess)reviews$/.test(path.plural)) return this.#forward(request, response);
    if (this.isFailing) return refuse(response, 500, 'InternalError', 'it fails');
    const { spec, ...given } = (await json(request)) as { readonly spec: ReviewSpec };
    const status = path.plural === 'tokenreviews' ? this.#tokenReview(spec) : await this.#accessReview(spec);
    response.writeHead(201, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify({ ...given, spec, status }));
  }

  #tokenReview({ token = '' }: ReviewSpec): object {
    const username = this.tokens.get(token);
    this.reviews.push(`token of ${username}`);
    if (username === undefined) return { user: {}, error: 'invalid bearer token' };
    return {
      authenticated: true,
      user: { username, uid: `uid of ${username}`, groups: groupsOf(username), extra: extraOf(username) },
      audiences: ['https://kubernetes.default.svc'],
    };
  }

  async #accessReview({ user = '', groups = [], resourceAttributes = {} }: ReviewSpec): Promise<object> {
    this.reviews.push(reported(user, resourceAttributes));
    return { allowed: await this.#allows({ user, groups }, resourceAttributes) };
  }

  async #allows({ user, groups }: User, wanted: Attributes): Promise<boolean> {
    this.#rbac ??= Promise.all([
      this.client.list(clusterRoles).then(({ items }) => items),
      this.client.list(clusterRoleBindings).then(({ items }) => items),
      this.client.list(roles).then(({ items }) => items),
      this.client.list(bindings).then(({ items }) => items),
    ]);
    const [ofCluster, ofAll, ofNamespaces, inNamespaces] = await this.#rbac;
    const granted = [
      ...ofAll,
      ...inNamespaces.filter(({ metadata }) => metadata.namespace === (wanted.namespace ?? '')),
    ].filter(({ subjects = [] }) =>
      subjects.some((subject) =>
        subject.kind === 'Group' ? groups.includes(subject.name) : nameOf(subject) === user,
      ),
    );
    return granted.some(({ roleRef, metadata }) =>
      (roleRef.kind === 'Role' ? ofNamespaces : ofCluster)
        .filter(
          (role) =>
            role.metadata.name === roleRef.name &&
            (roleRef.kind !== 'Role' || role.metadata.namespace === metadata.namespace),
        )
        .some(({ rules = [] }) => rules.some((rule) => matches(rule, wanted))),
    );
  }

  #forward(request: IncomingMessage, response: ServerResponse): void {
    const data = this.#directory.at('data');
    const token = readFileSync(join(data, 'token'), 'utf8').trim();
    const forwarded = send(`${this.#api.url}${request.url}`, {
      method: request.method,
      headers: { ...request.headers, authorization: `Bearer ${token}` },
      ca: readFileSync(join(data, 'ca.crt')),
      agent: false,
    });
    forwarded.on('error', () => response.destroy());
    forwarded.on('response', (answered) => {
      response.writeHead(answered.statusCode ?? 0, answered.headers);
      answered.on('error', () => response.destroy());
      answered.pipe(response);
    });
    response.on('close', () => forwarded.destroy());
    request.pipe(forwarded);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    this.client[Symbol.dispose]();
    await this.#api[Symbol.asyncDispose]();
    this.#directory[Symbol.dispose]();
  }
}

function nameOf({ kind, name, namespace = '' }: NonNullable<Binding['subjects']>[number]): string {
  return kind === 'ServiceAccount' ? `system:serviceaccount:${namespace}:${name}` : name;
}

const ofServiceAccount = /^system:serviceaccount:([^:]+):/;

/** As authenticators say. */
function groupsOf(user: string): readonly string[] {
  const [, namespace] = ofServiceAccount.exec(user) ?? [];
  return [
    ...(namespace === undefined ? [] : ['system:serviceaccounts', `system:serviceaccounts:${namespace}`]),
    'system:authenticated',
  ];
}

function extraOf(user: string): object {
  return ofServiceAccount.test(user)
    ? { 'authentication.kubernetes.io/credential-id': [`JTI=of ${user}`] }
    : {};
}

function matches(rule: NonNullable<Role['rules']>[number], wanted: Attributes): boolean {
  const { apiGroups = [], resources = [], verbs, resourceNames } = rule;
  const resource = wanted.subresource ? `${wanted.resource}/${wanted.subresource}` : (wanted.resource ?? '');
  return (
    verbs.includes(wanted.verb ?? '') &&
    apiGroups.includes(wanted.group ?? '') &&
    resources.includes(resource) &&
    (resourceNames === undefined || resourceNames.includes(wanted.name ?? ''))
  );
}

function verbOf(method: string | undefined, url: URL, name: string): string {
  if (method === 'GET') return url.searchParams.get('watch') ? 'watch' : name === '' ? 'list' : 'get';
  return { POST: 'create', PUT: 'update', PATCH: 'patch', DELETE: 'delete' }[method ?? ''] ?? '';
}

function reported(
  user: string,
  { verb, group: of = '', resource, subresource, namespace }: Attributes,
): string {
  return `${user} ${verb} ${resource}.${of}${subresource ? `/${subresource}` : ''} in ${namespace ?? ''}`;
}

/** k8s.io/apiserver pkg/endpoints/handlers/responsewriters/errors.go, and NewForbidden of k8s.io/apimachinery. */
function forbidden(user: string, wanted: Attributes): string {
  const { verb, group: of = '', resource, subresource, namespace, name } = wanted;
  const where = namespace ? `in the namespace "${namespace}"` : 'at the cluster scope';
  return (
    `${resource}${of && `.${of}`}${name ? ` "${name}"` : ''} is forbidden: User "${user}" cannot ${verb} resource ` +
    `"${resource}${subresource ? `/${subresource}` : ''}" in API group "${of}" ${where}`
  );
}

function refuse(response: ServerResponse, code: number, reason: string, message: string): void {
  response.writeHead(code, { 'Content-Type': 'application/json' });
  const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', reason, message, code };
  response.end(JSON.stringify(status));
}
