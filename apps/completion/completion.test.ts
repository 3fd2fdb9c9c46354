import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { bashCompletion } from '../../lib/cli/completion/bash.ts';
import { fishCompletion } from '../../lib/cli/completion/fish.ts';
import { zshCompletion } from '../../lib/cli/completion/zsh.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { Terminal } from '../../lib/testing/terminal.fixture.ts';
import { guards } from '../guards.ts';
import { programOf } from '../program.ts';

const missing = (shell: string): false | string =>
  spawnSync(shell, ['-c', 'exit 0']).status === 0 ? false : `needs ${shell}: scripts/setup test`;

/** The text before Tab, and the completed or offered words. */
const cases: readonly (readonly [typed: string, words: readonly string[]])[] = [
  ['rampart sta', ['standalone', 'status']],
  ['rampart bpf li', ['list']],
  ['rampart bpf map du', ['dump']],
  ['rampart status -o ', ['table', 'wide', 'json', 'yaml']],
  ['rampart status --output=y', ['--output=yaml']],
  // The value of an option is no command.
  ['rampart network -n bpf fl', ['flows']],
  ['rampart standalone --data bpf --list', ['--listen']],
  ['rampart completion fi', ['fish']],
  ['rampart standalone -f uni', ['unique.yaml']],
  ['rampart standalone --data only', ['only-directory']],
  ['rampart policy run uni', ['unique.yaml']],
];

function escaped(word: string): string {
  return word.replaceAll(/[.=-]/g, String.raw`\$&`);
}

class Scene extends TemporaryDirectory {
  constructor() {
    super();
    this.write('unique.yaml', '');
    this.write('only-a-file', '');
    mkdirSync(this.at('only-directory'));
  }

  write(name: string, text: string): void {
    writeFileSync(this.at(name), text);
  }
}

async function completes(terminal: Terminal): Promise<void> {
  await terminal.untilShown(/ready> $/);
  for (const [typed, words] of cases) {
    // Ctrl-U forgets the line before.
    terminal.type(`\u0015${typed}\t`);
    const all = words.map((word) => String.raw`(?=[^]*\s${escaped(word)}\b)`).join('');
    await terminal.untilShown(new RegExp(`^${all}`));
  }
}

test(
  'bash completes commands, options, their values, files and directories',
  { skip: missing('bash') },
  async () => {
    using scene = new Scene();
    scene.write('rampart.bash', bashCompletion(programOf(guards)));
    const quiet = [
      'show-all-if-ambiguous on',
      'enable-bracketed-paste off',
      'bell-style none',
      'page-completions off',
    ];
    const settings = quiet.map((setting) => `bind 'set ${setting}'\n`).join('');
    scene.write('rc', `PS1='ready> '\n${settings}source ./rampart.bash\n`);
    await using terminal = new Terminal('bash --rcfile ./rc -i', {
      cwd: scene.path,
      env: { INPUTRC: '/dev/null' },
    });
    await completes(terminal);
  },
);

test('zsh does, with the script in fpath', { skip: missing('zsh') }, async () => {
  using scene = new Scene();
  mkdirSync(scene.at('functions'));
  scene.write('functions/_rampart', zshCompletion(programOf(guards)));
  scene.write(
    '.zshrc',
    "PS1='ready> '\nLISTMAX=0\nunset zle_bracketed_paste\nsetopt no_beep no_auto_menu\n" +
      'fpath=($PWD/functions $fpath)\nautoload -Uz compinit\ncompinit -u -D\n',
  );
  await using terminal = new Terminal('zsh -i', { cwd: scene.path, env: { ZDOTDIR: scene.path } });
  await completes(terminal);
});

test('fish does', { skip: missing('fish') }, () => {
  using scene = new Scene();
  scene.write('rampart.fish', fishCompletion(programOf(guards)));
  const asked = cases.map(
    ([typed]) => `echo '>' ${JSON.stringify(typed)}; complete -C ${JSON.stringify(typed)}`,
  );
  const { stdout, stderr, status } = spawnSync(
    'fish',
    ['--no-config', '-c', `source rampart.fish; ${asked.join('; ')}`],
    { encoding: 'utf8', cwd: scene.path, env: { ...process.env, HOME: scene.path } },
  );
  assert.deepEqual({ status, stderr }, { status: 0, stderr: '' });
  for (const [typed, words] of cases) {
    const [offered = ''] = stdout.split(`> ${typed}\n`)[1]?.split(/^> /m) ?? [];
    for (const word of words) assert.match(offered, new RegExp(String.raw`^${escaped(word)}\b`, 'm'), typed);
  }
});
