// kubectl creates the same object by protobuf as the same command does as JSON.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test, type TestContext } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { deepTest, sampled } from '../../testing/depth.fixture.ts';
import { issueAuthority } from '../../x509/certificate.ts';
import { noKubectl } from '../discovery/kubectl.fixture.ts';
import { comparable, Running } from './server.fixture.ts';

const protobuf = 'application/vnd.kubernetes.protobuf';
const key = issueAuthority('test', { now: new Date(), days: 1 });
const schedule = '*/5 * * * *';

/** The path of the collection under that of its group and namespace, and the command without `create`. */
const namespaced: readonly (readonly [path: string, ...args: string[]])[] = [
  [
    'api/v1:configmaps',
    'configmap',
    'plain',
    '--from-literal=x=1',
    '--from-literal=y=',
    '--from-literal=z=ü',
  ],
  ['api/v1:configmaps', 'configmap', 'none'],
  ['api/v1:configmaps', 'configmap', 'files', '--from-file=bin', '--from-file=text', '--append-hash'],
  ['api/v1:secrets', 'secret', 'generic', 'plain', '--from-literal=x=1', '--from-file=bin', '--type=my/type'],
  ['api/v1:secrets', 'secret', 'tls', 'pair', '--cert=cert', '--key=key'],
  [
    'api/v1:secrets',
    'secret',
    'docker-registry',
    'pull',
    '--docker-server=registry.example.com',
    '--docker-username=me',
    '--docker-password=secret',
  ],
  ['api/v1:serviceaccounts', 'serviceaccount', 'robot'],
  ['api/v1:services', 'service', 'clusterip', 'inner', '--tcp=80:8080', '--tcp=5678'],
  ['api/v1:services', 'service', 'clusterip', 'headless', '--clusterip=None'],
  ['api/v1:services', 'service', 'nodeport', 'node', '--tcp=80:http', '--node-port=30080'],
  ['api/v1:services', 'service', 'loadbalancer', 'balanced', '--tcp=443'],
  ['api/v1:services', 'service', 'externalname', 'outer', '--external-name=example.com'],
  ['api/v1:resourcequotas', 'quota', 'small', '--hard=cpu=1,memory=1.5Gi,pods=0', '--scopes=BestEffort'],
  ['apis/apps/v1:deployments', 'deployment', 'web', '--image=nginx:1', '--port=80', '--replicas=0'],
  ['apis/apps/v1:deployments', 'deployment', 'two', '--image=a/b', '--image=c/d', '--replicas=3'],
  ['apis/apps/v1:deployments', 'deployment', 'command', '--image=busybox', '--', 'sleep', '1'],
  ['apis/batch/v1:jobs', 'job', 'once', '--image=busybox', '--', 'date', '-u'],
  [
    'apis/batch/v1:cronjobs',
    'cronjob',
    'often',
    '--image=busybox',
    `--schedule=${schedule}`,
    '--restart=Never',
  ],
  [
    'apis/rbac.authorization.k8s.io/v1:roles',
    'role',
    'reader',
    '--verb=get,list',
    '--resource=pods,deployments.apps/scale',
    '--resource-name=a',
  ],
  [
    'apis/rbac.authorization.k8s.io/v1:rolebindings',
    'rolebinding',
    'readers',
    '--role=reader',
    '--user=me',
    '--group=us',
    '--serviceaccount=default:robot',
  ],
  ['apis/policy/v1:poddisruptionbudgets', 'pdb', 'percent', '--selector=app=web,a=b', '--min-available=50%'],
  ['apis/policy/v1:poddisruptionbudgets', 'pdb', 'none', '--selector=app=web', '--max-unavailable=0'],
  [
    'apis/networking.k8s.io/v1:ingresses',
    'ingress',
    'front',
    '--class=nginx',
    '--rule=example.com/a*=web:80,tls=cert',
    '--rule=/b=web:http',
    '--default-backend=other:8080',
    '--annotation=a/b=c',
  ],
];

/** From the CronJob above. */
const fromAnother = ['apis/batch/v1:jobs', 'job', 'now', '--from=cronjob/often'] as const;

const clusterScoped: readonly (readonly [path: string, ...args: string[]])[] = [
  ['api/v1:namespaces', 'namespace', 'fresh'],
  [
    'apis/rbac.authorization.k8s.io/v1:clusterroles',
    'clusterrole',
    'urls',
    '--verb=get',
    '--non-resource-url=/x',
  ],
  [
    'apis/rbac.authorization.k8s.io/v1:clusterroles',
    'clusterrole',
    'sum',
    '--aggregation-rule=a.example.com/b=true',
  ],
  [
    'apis/rbac.authorization.k8s.io/v1:clusterrolebindings',
    'clusterrolebinding',
    'all',
    '--clusterrole=urls',
    '--group=us',
  ],
  [
    'apis/scheduling.k8s.io/v1:priorityclasses',
    'priorityclass',
    'high',
    '--value=-5',
    '--global-default=false',
    '--description=x',
    '--preemption-policy=Never',
  ],
];

describe('kubectl create', { skip: noKubectl }, () => {
  let running: Running;
  let isProtobuf = false;

  before(async () => {
    running = await Running.start();
    writeFileSync(
      join(running.folder, 'bin'),
      Buffer.concat([Buffer.from([0xff, 0, 0xfe]), randomBytes(500)]),
    );
    writeFileSync(join(running.folder, 'text'), 'one\ntwo\n');
    writeFileSync(join(running.folder, 'cert'), key.cert);
    writeFileSync(join(running.folder, 'key'), key.key);
    for (const namespace of ['typed', 'raw']) {
      const { code, stderr } = await running.kubectl('create', 'namespace', namespace, '-v=7');
      assert.equal(code, 0, stderr);
      isProtobuf = stderr.includes(`Content-Type: ${protobuf}`);
    }
  });
  after(() => running[Symbol.asyncDispose]());

  /** With the paths of our files, and before what is for the container. */
  const commandOf = (args: readonly string[], ...more: readonly string[]): string[] => {
    const all = args.map((arg) => arg.replace(/^(--(?:from-file|cert|key)=)/, `$1${running.folder}/`));
    const end = all.indexOf('--');
    return [
      'create',
      ...all.slice(0, end < 0 ? all.length : end),
      ...more,
      ...(end < 0 ? [] : all.slice(end)),
    ];
  };

  const compare = async (
    t: TestContext,
    path: string,
    args: readonly string[],
    scope: boolean,
  ): Promise<void> => {
    if (!isProtobuf) return t.skip('this kubectl sends JSON');
    const [group, plural] = path.split(':') as [string, string];
    const collection = (namespace: string) =>
      scope ? `/${group}/namespaces/${namespace}/${plural}` : `/${group}/${plural}`;
    const inNamespace = (namespace: string) => (scope ? ['-n', namespace] : []);
    const printed = await running.kubectl(
      ...commandOf(args, '--dry-run=client', '-o=json', ...inNamespace('raw')),
    );
    assert.equal(printed.code, 0, printed.stderr);
    const typed = await running.kubectl(...commandOf(args, '-v=7', ...inNamespace('typed')));
    assert.equal(typed.code, 0, typed.stderr);
    assert.match(typed.stderr, /POST [\s\S]*Content-Type: application\/vnd\.kubernetes\.protobuf/);
    const { name } = (JSON.parse(printed.stdout) as { metadata: { name: string } }).metadata;
    const stored = await running.call('GET', `${collection('typed')}/${name}`);
    assert.equal(stored.code, 200);
    if (!scope) assert.equal((await running.call('DELETE', `${collection('')}/${name}`)).code, 200);
    const posted = await eventually(() =>
      running.call('POST', `${collection('raw')}?fieldManager=kubectl-create`, undefined, printed.stdout),
    );
    assert.equal(posted.code, 201, JSON.stringify(posted.json));
    assert.deepEqual(comparable(stored.json), comparable(posted.json));
  };

  for (const [path, ...args] of sampled(namespaced, 2)) {
    test(args.slice(0, 3).join(' '), (t) => compare(t, path, args, true));
  }
  for (const [path, ...args] of sampled(clusterScoped, 1)) {
    test(args.slice(0, 2).join(' '), (t) => compare(t, path, args, false));
  }

  deepTest('job now --from=cronjob', (t) => compare(t, fromAnother[0], fromAnother.slice(1), true));

  test('errors have the same wording', async (t) => {
    if (!isProtobuf) return t.skip('this kubectl sends JSON');
    const { code, stderr } = await running.kubectl(
      'create',
      'deployment',
      'Bad_Name',
      '--image=a',
      '-n=typed',
    );
    assert.equal(code, 1);
    assert.match(stderr, /Deployment\.apps "Bad_Name" is invalid: metadata\.name: Invalid value: "Bad_Name"/);
    const create = ['create', 'serviceaccount', 'twice', '-n=typed'];
    await running.kubectl(...create);
    const again = await running.kubectl(...create);
    assert.match(again.stderr, /serviceaccounts "twice" already exists/);
  });
});

/** A namespace takes a moment to be gone. */
async function eventually<T extends { readonly code: number }>(attempt: () => Promise<T>): Promise<T> {
  for (let round = 1; ; round++) {
    const answer = await attempt();
    if (answer.code !== 409 || round === 100) return answer;
    await delay(50);
  }
}
