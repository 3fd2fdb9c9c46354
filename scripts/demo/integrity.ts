/** The demo's third part: files that should not change, changed by two processes; the findings, with their authors. */
import { mkdirSync } from 'node:fs';

import type { FindingLine } from '../../guards/file-integrity/status/finding-line-kind.ts';
import { NOBODY } from '../../lib/testing/public-checkout.fixture.ts';
import { kubectl, type Part, programPath, type Stage } from './stage.ts';

const inNamespace = '-n openshift-file-integrity';
/** Short for fileintegritynodestatuses.fileintegrity.openshift.io; another group has a resource of that name. */
const get = `kubectl get fins ${inNamespace}`;

/** By a script the kernel runs the interpreter, with the script as its argument (execve(2)). */
const tamperings = [
  { path: '/etc/passwd', program: 'sh', words: './tamper.sh', asNobody: true },
  { path: '/etc/sudoers', program: 'mv', words: '-f sudoers.new host/etc/sudoers', asNobody: false },
];
const paths = tamperings.map(({ path }) => path);

export const integrity: Part = {
  name: 'integrity',
  title: 'Integrity',
  packages: kubectl,
  async play(stage) {
    const { screen } = stage;
    mkdirSync(stage.at('host/etc'), { recursive: true });
    // A world-writable file is the mistake that the attack uses.
    stage.write('host/etc/passwd', 'root:x:0:0:root:/root:/bin/sh\n', 0o666);
    stage.write('host/etc/sudoers', 'root ALL=(ALL:ALL) ALL\n', 0o440);
    stage.write('sudoers.new', 'eve ALL=(ALL:ALL) NOPASSWD: ALL\n', 0o440);
    stage.write('tamper.sh', "#!/bin/sh\necho 'eve::0:0::/:/bin/sh' >> host/etc/passwd\n", 0o755);

    screen.step('Rampart for one machine. Its files are those in the directory host.');
    const standalone = await stage.standalone(`--mode ${stage.mode} --host-root host --node-name machine`);
    screen.step('A FileIntegrity with an aide.conf, as people have it for the File Integrity Operator:');
    await stage.type('cat examples/file-integrity.yaml');
    await stage.type('kubectl apply -f examples/file-integrity.yaml');
    await result(stage, 'the first result', 'Succeeded');
    // The watch of the files begins when there is a baseline.
    const until = /"events":"(?!none")/;
    const detection = await stage.type(`${get} -o 'jsonpath={.items[*].detection}'`, { until });
    const hasAuthors = detection.includes('"events":"sensor"');

    screen.step(
      hasAuthors
        ? 'Two files are changed: by nobody, one that everybody may write by mistake; by root, one about rights.'
        : 'Two files are changed. Who does it cannot be seen on this machine; the reason is above.',
    );
    await stage.type('cat tamper.sh');
    let first: string | undefined;
    for (const { path, program, words, asNobody } of tamperings) {
      const prompt = asNobody ? `uid ${NOBODY} $` : '#';
      await stage.type(program === 'sh' ? words : `${program} ${words}`, { asNobody, prompt });
      const isIt = (finding: FindingLine): boolean => finding.state === 'found' && finding.path === path;
      const found = await stage.hear(standalone, isIt);
      first ??= found?.line;
      const { change, seenBy, author } = found?.keys ?? {};
      const how = seenBy === 'event' ? 'at once' : 'by a scan';
      stage.check(path, 'changed, known at once', found ? `${change}, known ${how}` : 'no finding');
      const by = author ? `${author.binary} ${author.arguments}, uid ${author.uid}` : 'not known here';
      const expected = `${programPath(program)} ${words}, uid ${asNobody ? NOBODY : 0}`;
      const who = hasAuthors ? expected : 'not known here';
      stage.check(`who changed ${path}`, who, found ? by : 'no finding');
    }
    if (first !== undefined) {
      screen.step('The first finding as it is at stdout, where it is one line:');
      screen.json(first);
    }

    screen.step('The node, the log of the result in the words of AIDE, and the report:');
    await result(stage, 'the node', 'Failed');
    const log = await stage.type(
      `kubectl get configmap aide-etc-machine-failed ${inNamespace} -o 'jsonpath={.data.integritylog}' | grep ' : '`,
      { until: new RegExp(paths.map((path) => `: /hostroot${path}$`).join('[^]*'), 'm') },
    );
    const named = paths.filter((path) => log.split('\n').some((line) => line.endsWith(`: /hostroot${path}`)));
    stage.check('in the log', paths.join(' and '), named.join(' and ') || 'none of them');
    const reports = `kubectl get policyreports ${inNamespace}`;
    const failed = await stage.run(`${reports} -o 'jsonpath={.items[*].summary.fail}'`, { until: /^2$/ });
    await stage.type(reports);
    await stage.type(`${reports} -o 'jsonpath={range.items[*].results[*]}{.message}{"\\n"}{end}'`);
    stage.check('results in the report', '2 fail', `${failed || 'no'} fail`);

    screen.step('Somebody has looked at it, and the changes were meant: the baseline takes them.');
    const accept = "rampart integrity accept etc --all --data data --reason 'a new user, with all rights'";
    await stage.typeChecked('rampart integrity accept', accept, 0);
    await result(stage, 'the node after that', 'Succeeded');
    const events = `kubectl get events ${inNamespace} --field-selector reason=NodeIntegrityAccepted`;
    await stage.type(`${events} -o custom-columns=MESSAGE:.message`);
  },
};

/** Asks until the node has this result, and shows it. */
async function result(stage: Stage, what: string, wanted: string): Promise<void> {
  const table = await stage.type(get, { until: new RegExp(`${wanted}$`) });
  stage.check(what, wanted, table.split('\n')[1]?.split(/\s+/)[2] ?? 'none');
}
