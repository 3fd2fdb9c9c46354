/** The demo's second part: a pod, a KivePolicy, two accesses, and their alerts, by `rampart standalone`. */
import { readFileSync } from 'node:fs';

import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';
import { Receiver } from '../../guards/file-access/delivery/receiver.fixture.ts';
import { kubectl, type Part } from './stage.ts';

/** How long to wait when no alert is expected. */
const NO_ALERT_MS = 500;
/** The sample of Kive's design document, byte for byte. */
export const samplePolicy = new URL('./kive-sample-policy.yaml', import.meta.url);
/** What it is for. */
const [ip, owner] = ['192.168.0.3', 'nginx in default/nginx-pod, 192.168.0.3, severity critical'];

export const pods: Part = {
  name: 'pods',
  title: 'Pods',
  hasPods: true,
  packages: kubectl,
  async play(stage) {
    const { screen, signal } = stage;
    screen.step('containerd with directories, mounts and a network of its own, and an image made here:');
    const lab = await stage.lab();
    const { name, version } = await lab.cri.version({ signal });
    const spec = { name: 'nginx-pod', labels: { 'security-level': stage.securityLevel } };
    const pod = await screen.during('the pod starts', lab.runPod(spec));
    screen.answer(`${name} ${version} runs the pod ${pod.name} at ${pod.ip}`);
    stage.check('address of the pod', ip, pod.ip);

    const receiver = await stage.use('the receiver starts', Receiver.start());
    screen.step('Rampart for one machine: Kubernetes API, operator and agent. Alerts go to its stdout.');
    const standalone = await stage.standalone(
      `--mode ${stage.mode} --allow-callback 127.0.0.1 --cri-socket ${lab.socketPath}`,
      /guarding this machine with sensor mode /,
    );
    await stage.type('kubectl get pods --show-labels', { until: /Running/ });

    screen.step(
      "The sample policy of Kive's design document. Only its callback is another: a receiver here.",
    );
    const sample = readFileSync(samplePolicy, 'utf8');
    stage.write('policy.yaml', sample.replace('http://my-callback.com/alerts', receiver.url('/alerts')));
    await stage.type('cat policy.yaml');
    const inSystem = '-n kivebpf-system';
    await stage.run('kubectl get namespace kivebpf-system', { until: /Active/ });
    await stage.type('kubectl apply -f policy.yaml');
    const isFor = stage.securityLevel === 'high';
    await stage.type(`kubectl wait -f policy.yaml --for=condition=Ready --timeout=${isFor ? 30 : 3}s`);
    await stage.type(`kubectl get kivepolicies ${inSystem}`);
    const data = rowsOf(await stage.type(`kubectl get kivedata ${inSystem}`));
    const counts = '{.status.watchedFiles} file in {.status.matchedContainers} container';
    const get = `kubectl get kivepolicy kive-sample-policy ${inSystem}`;
    const status = await stage.run(`${get} -o jsonpath='${counts}'`);
    stage.check('watched for the policy', '1 file in 1 container', status);
    stage.check('KiveData', '1', String(data));

    screen.step('The file, which the policy had created, is read in the pod, and by root on the host:');
    const alerts: { readonly line: string; readonly keys: KiveAlert }[] = [];
    const hear = async (what: string, expected: string): Promise<void> => {
      const heard = await stage.hear<KiveAlert>(standalone, () => true, data > 0 ? undefined : NO_ALERT_MS);
      if (heard !== undefined) alerts.push(heard);
      const { metadata, accessor } = heard?.keys ?? {};
      const seen = metadata && `${metadata.access.join()} by ${accessor?.relation}`;
      stage.check(what, expected, seen ?? 'no alert');
    };
    const [permissions, , user] = (await stage.inPod(lab, pod, 'ls -l /secret.txt')).split(/\s+/);
    stage.check('/secret.txt in the pod', '-r--r--r-- root', `${permissions} ${user}`);
    await stage.inPod(lab, pod, 'cat /secret.txt');
    await hear('read in the pod', 'read by owner');
    const container = pod.containers.get('nginx');
    await stage.type(`cat /proc/${container?.pid}/root/secret.txt`, { prompt: 'host #' });
    await hear('read on the host', 'read by host');
    const last = alerts.at(-1);
    if (last !== undefined) {
      screen.step('The second alert as it is at stdout, where it is one line:');
      screen.json(last.line);
    }
    const owners = new Set(alerts.map(({ keys }) => ownerIn(keys)));
    stage.check('owner in the alerts', owner, [...owners].join(' and '));
    const ids = new Set(alerts.map(({ keys }) => shortId(keys.pod.container.id)));
    stage.check('its container', shortId(`containerd://${container?.id}`), [...ids].join(' and '));

    const { received } = receiver;
    const isAll = (count: number): boolean => count >= alerts.length;
    await stage.until(async () => received.length, isAll);
    screen.step(`The same alerts at the receiver, ${receiver.url('/alerts')}:`);
    for (const { path, id, line } of received)
      screen.answer(`POST ${path}  X-Rampart-Alert-Id: ${id}  ${Buffer.byteLength(line)} bytes`);
    const same = received.filter(({ line }, index) => line === alerts[index]?.line).length;
    const reported = `${received.length} alerts with ${new Set(received.map(({ id }) => id)).size} ids`;
    stage.check(
      'at the receiver',
      '2 alerts with 2 ids, 2 as at stdout',
      `${reported}, ${same} as at stdout`,
    );

    screen.step('The policy is deleted, and with it what it had watched:');
    await stage.type('kubectl delete -f policy.yaml');
    stage.check('KiveData after deletion', '0', String(rowsOf(await stage.type('kubectl get kivedata -A'))));
    await stage.inPod(lab, pod, 'cat /secret.txt');
    await stage.end();
    const late = standalone.rest();
    for (const line of late) stage.show(line);
    if (late.length === 0) screen.answer('no alert');
    stage.check('alerts after deletion', '0', String(late.length + received.length - alerts.length));
  },
};

/** Which container the file is of, by all that an alert says of it. */
function ownerIn({ pod, 'custom-metadata': metadata }: KiveAlert): string {
  const { container, name, namespace, ip: address } = pod;
  const also = Object.entries(metadata).map(([key, value]) => `, ${key} ${value}`);
  return `${container.name} in ${namespace}/${name}, ${address}${also.join('')}`;
}

function shortId(id: string): string {
  return id.slice(0, 'containerd://'.length + 12);
}

/** Rows of a table printed by kubectl. */
function rowsOf(table: string): number {
  return table.startsWith('NAME') ? table.split('\n').length - 1 : 0;
}
