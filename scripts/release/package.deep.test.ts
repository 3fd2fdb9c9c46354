// From the packages to the first finding of each guard, and back, as docs/install.md has it: on a bare Debian 12 with systemd.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { isDeep } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { type Packages, writePackages } from './package.ts';
import { assertFinding } from '../../guard/stream/finding-schema.fixture.ts';
import { labObstacle } from '../../test/lab/obstacle.ts';
import { Machine, machineObstacle } from './machine.fixture.ts';
import { type MachinePod, runPods } from './pods.fixture.ts';

const guide = readFileSync(join(import.meta.dirname, '../../docs/install.md'), 'utf8');
const log = '/var/log/rampart/findings.jsonl';
const obstacle = (): string | undefined =>
  isDeep ? (machineObstacle() ?? labObstacle()) : 'only in npm run test:deep';

/** The shell blocks below a heading of the guide, as root runs them. */
function blocks(heading: string): string[] {
  const section = guide.split(/^(?=## )/m).find((one) => one.startsWith(`## ${heading}\n`)) ?? '';
  return [...section.matchAll(/^```sh\n([^]*?)^```$/gm)].map(([, block = '']) =>
    block.replaceAll('sudo ', ''),
  );
}

suite('packages on a bare Debian 12', { skip: obstacle() }, () => {
  let made: TemporaryDirectory;
  let packages: Packages;
  let machine: Machine;
  let pods: { db: MachinePod; backend: MachinePod; web: MachinePod };
  before(async () => {
    made = new TemporaryDirectory();
    packages = writePackages(made.path, { level: 0 });
    machine = await Machine.boot();
    for (const path of [packages.deb, packages.tarball])
      copyFileSync(path, join(machine.root, 'root', basename(path)));
  });
  after(async () => {
    await machine?.[Symbol.asyncDispose]();
    made?.[Symbol.dispose]();
  });

  const inRoot = (block: string): Promise<string> =>
    machine.run(`set -e; cd /root; export KUBECONFIG=/var/lib/rampart/kubeconfig\n${block}`);
  const isUp = async (): Promise<void> => {
    assert.equal((await machine.try('systemctl is-active rampart')).stdout, 'active\n');
  };
  const mainPid = async (): Promise<string> => await machine.run('systemctl show --value -p MainPID rampart');
  const findings = async (): Promise<{ guard: string; verdict: string; message: string }[]> => {
    const lines = (await machine.run(`cat ${log}`)).split('\n').filter((line) => line !== '');
    for (const line of lines) assertFinding(line);
    return lines.map((line) => JSON.parse(line) as { guard: string; verdict: string; message: string });
  };
  const untilFound = (guard: string, verdict: string): Promise<unknown> =>
    until(`a finding of ${guard}: ${verdict}`, async () =>
      (await findings()).some((one) => one.guard === guard && one.verdict === verdict),
    );
  const inPod = (pod: MachinePod, command: string): string =>
    `nsenter --target ${pod.pid} --net -- ${command}`;
  /** How often the program of the examples ran, and how many packets the loopback interface had received before and after that was read. */
  const counted = async (): Promise<{ packetsBefore: number; runs: number; packetsAfter: number }> => {
    const packets = 'awk \'$1 == "lo:" { print $3 }\' /proc/net/dev';
    const text = await machine.run(`${packets}; rampart bpf chain lo -o json; ${packets}`);
    const [first, json = '', last] = text.split('\n');
    const { chains } = JSON.parse(json) as { chains: { members: { runs: number }[] }[] };
    return {
      packetsBefore: Number(first),
      runs: chains[0]?.members[0]?.runs ?? 0,
      packetsAfter: Number(last),
    };
  };

  test('apt installs it with what it needs; the service is up when all guards are', async () => {
    const [install = ''] = blocks('Debian');
    assert.match(await inRoot(install), /Active: active \(running\)/);
    await isUp();
    assert.match(
      await machine.run('rampart --version; man --version > /dev/null 2>&1; ls /usr/share/man/man1'),
      /rampart\.1\.gz/,
    );
    // A machine without a container runtime.
    assert.match(
      await machine.run('systemctl show -p StatusText rampart'),
      /container-runtime: no container runtime found/,
    );
    await until('file-access runs without one', async () => {
      const { stdout } = await machine.try('rampart status --data /var/lib/rampart -o json');
      return /"file-access":\{"state":"running"[^]*no container runtime responds/.test(stdout);
    });
    assert.equal(await machine.run(`stat -c '%a %U %G' ${log}`), '640 root adm\n');
  });

  test('each guard has its first finding by the guide', async () => {
    const [db, backend, web] = await runPods(machine, [
      {
        name: 'db',
        labels: { app: 'db' },
        containers: [{ name: 'db', command: ['httpd', '-f', '-p', '5432', '-h', '/usr/share/nginx/html'] }],
      },
      { name: 'backend', labels: { app: 'backend' } },
      { name: 'web', labels: { app: 'web' } },
    ]);
    assert.ok(db && backend && web);
    pods = { db, backend, web };
    const ping = inPod(web, `busybox ping -c 1 -W 5 ${db.ip}`);
    await machine.run(ping);
    const [apply = '', act = '', alerts = ''] = blocks('First findings');
    // `rampart status` exits with 1 as long as something is not in effect.
    await inRoot(apply.replace(/^rampart status$/m, 'rampart status || test $? = 1'));
    await until('they are in effect', async () => {
      const { stdout } = await machine.try('rampart status --data /var/lib/rampart');
      return (
        /All files of the policy are watched/.test(stdout) &&
        /with author/.test(stdout) &&
        /default\/db +Ingress +1 +yes/.test(stdout) &&
        /2 admission policies are active/.test(stdout)
      );
    });
    await untilFound('bpf-programs', 'not-loaded');
    for (const command of act.trim().split('\n')) {
      const { code, stderr } = await machine.try(
        `cd /root; export KUBECONFIG=/var/lib/rampart/kubeconfig; ${command}`,
      );
      if (command.startsWith('kubectl'))
        assert.match(stderr, /denied the request: passwords belong in a Secret/);
      else assert.equal(code, 0, command);
    }
    assert.notEqual((await machine.try(ping)).code, 0);
    await machine.run(
      inPod(
        backend,
        `sh -c 'printf "GET / HTTP/1.0\\r\\n\\r\\n" | busybox nc -w 5 ${db.ip} 5432 | grep -q nginx'`,
      ),
    );
    await untilFound('file-access', 'allowed');
    await untilFound('file-integrity', 'changed');
    await untilFound('policy-audit', 'rejected');
    await untilFound('network-policy', 'refused');
    await untilFound('bpf-programs', 'running');
    const shown = await inRoot(alerts);
    for (const word of ['/etc/shadow', '/etc/motd', 'passwords belong in a Secret', 'default/web'])
      assert.ok(shown.includes(word), `${word}:\n${shown}`);
  });

  test('a rotated log has all lines up to the reload, and the new one those after it', async () => {
    const written = await findings();
    await machine.run('apt-get install -q logrotate');
    await machine.run('logrotate --force /etc/logrotate.d/rampart');
    await machine.run('cat /etc/shadow > /dev/null');
    await untilFound('file-access', 'allowed');
    const rotated = (await machine.run(`cat ${log}.1`)).trim().split('\n');
    assert.ok(rotated.length >= written.length);
    assert.equal(await machine.run(`stat -c '%a %U %G' ${log}`), '640 root adm\n');
  });

  test('upgraded over itself, no packet passes that is refused, and the eBPF program runs for each packet', async () => {
    const [pid, first] = [await mainPid(), await counted()];
    const stream = machine.try(
      inPod(pods.web, `sh -c 'busybox ping -q -i 0.01 -W 1 ${pods.db.ip} & echo $! > /run/ping; wait'`),
    );
    // Packets that the program counts.
    await machine.run('busybox ping -q -i 0.01 127.0.0.1 > /dev/null 2>&1 & echo $! > /run/ping-lo');
    await until('packets are sent', async () => (await machine.try('test -s /run/ping')).code === 0);
    await inRoot(`apt-get install --reinstall ./${basename(packages.deb)}`);
    await isUp();
    assert.notEqual(await mainPid(), pid);
    const last = await counted();
    await machine.run('kill -INT $(cat /run/ping) $(cat /run/ping-lo)');
    const { stdout } = await stream;
    const [, sent = '0', passed = ''] =
      /^(\d+) packets transmitted, (\d+) packets received/m.exec(stdout) ?? [];
    assert.ok(Number(sent) > 10, stdout);
    assert.equal(passed, '0', stdout);
    const received = last.packetsBefore - first.packetsAfter;
    assert.ok(received > 0, JSON.stringify({ first, last }));
    assert.ok(last.runs - first.runs >= received, JSON.stringify({ first, last }));
  });

  test('a process that hangs is replaced', async () => {
    const pid = await mainPid();
    const dropIn = '/run/systemd/system/rampart.service.d/soon.conf';
    await machine.run(
      `mkdir -p ${dropIn.replace('/soon.conf', '')}; printf '[Service]\\nWatchdogSec=2s\\nTimeoutAbortSec=1s\\n' > ${dropIn}; systemctl daemon-reload; systemctl restart rampart`,
    );
    const second = await mainPid();
    assert.notEqual(second, pid);
    await machine.run(`kill -STOP ${second}`);
    await until('another process', async () => !['0\n', second].includes(await mainPid()));
    await until('it is up', async () => (await machine.try('systemctl is-active rampart')).code === 0);
    await machine.run(`rm ${dropIn}; systemctl daemon-reload; systemctl restart rampart`);
    await isUp();
  });

  test('a backup is restored as the guide says', async () => {
    const [backUp = '', restore = ''] = blocks('Back up and restore');
    await inRoot('kubectl create configmap kept');
    await inRoot(backUp);
    await inRoot('kubectl delete configmap kept');
    await inRoot(restore);
    await isUp();
    await inRoot('kubectl get configmap kept');
  });

  test('removed, it leaves nothing in the kernel; installed again, it has its data; purged, it leaves nothing', async () => {
    const [uninstall = ''] = blocks('Uninstall');
    const [remove = '', purge = ''] = uninstall.trim().split('\n');
    await inRoot(remove);
    const inKernel = async (): Promise<string> =>
      await machine.run(
        'apt-get install -q nftables > /dev/null; nft list tables; ls /sys/fs/bpf; ip link show lo',
      );
    assert.doesNotMatch(await inKernel(), /rampart|xdp/);
    await machine.run(inPod(pods.web, `busybox ping -c 1 -W 5 ${pods.db.ip}`));
    await machine.run('test -s /var/lib/rampart/kubeconfig');
    await inRoot(`apt-get install ./${basename(packages.deb)}`);
    await isUp();
    await inRoot('kubectl get configmap kept');
    await inRoot(purge);
    assert.doesNotMatch(await inKernel(), /rampart|xdp/);
    const left = await machine.run(
      "find / -xdev -iname '*rampart*' -not -path '/root/*' -not -path '/proc/*'",
    );
    assert.equal(left, '');
    assert.notEqual((await machine.try('systemctl cat rampart')).code, 0);
  });

  test('the archive installs the same below a prefix, and removes it', async () => {
    await machine.run('apt-get install -q libbpf1 libnftables1');
    const [install = ''] = blocks('Other distributions');
    const output = await inRoot(install.replaceAll('/usr/local', '/opt/rampart'));
    assert.match(output, /Installed: rampart \d/);
    await isUp();
    assert.match(await machine.run('/opt/rampart/bin/rampart version -o json'), /"version"/);
    await machine.run('/opt/rampart/lib/rampart/install.sh --remove');
    assert.notEqual((await machine.try('systemctl cat rampart')).code, 0);
    const left = await machine.run(
      "find / -xdev -iname '*rampart*' -not -path '/root/*' -not -path '/proc/*' | sort",
    );
    assert.deepEqual(
      left.split('\n').filter((path) => /^\/(?:opt\/rampart\/|usr|run)/.test(path)),
      [],
    );
  });

  test('npm installs it without the network and without a warning, with guides and without headers', () => {
    using directory = new TemporaryDirectory();
    const prefix = directory.at('prefix');
    const options = [
      '--global',
      '--prefix',
      prefix,
      '--cache',
      directory.at('cache'),
      '--offline',
      '--no-update-notifier',
    ];
    const { status, stdout, stderr } = spawnSync('npm', ['install', ...options, packages.npm], {
      encoding: 'utf8',
      cwd: directory.path,
    });
    assert.deepEqual([status, stderr], [0, ''], stdout);
    const root = join(prefix, 'lib/node_modules/rampart');
    const unwanted = '**/*.{h,hh,c,cc,d.ts,map}';
    assert.deepEqual(
      globSync(unwanted, { cwd: root }).filter((path) => !path.startsWith('examples/')),
      [],
    );
    assert.ok(globSync('docs/{install,commands}.md', { cwd: root }).length === 2);
    const version = execFileSync(join(prefix, 'bin/rampart'), ['--version'], { encoding: 'utf8' });
    assert.match(version, /^\d+\.\d+\.\d+\n$/);
  });
});
