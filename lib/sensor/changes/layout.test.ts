import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { BPF_DIRECTORY, Btf, btfSkip, compileHeader, headerSkip, snakeKeys } from '../btf.fixture.ts';
import * as shared from '../layout.ts';
import * as layout from './layout.ts';

suite('the committed object of changes has the structures of layout.ts', { skip: btfSkip }, () => {
  const btf = btfSkip ? undefined : new Btf(`${BPF_DIRECTORY}/changes.bpf.o`);

  for (const [name, fields] of Object.entries({
    directory: layout.directory,
    change: layout.change,
    target_key: shared.targetKey,
    counters: shared.counters,
    identity: shared.identity,
    state: shared.state,
    settings: shared.settings,
  })) {
    test(`struct ${name}`, () => assert.deepEqual(btf?.structure(name), snakeKeys(fields)));
  }

  for (const [section, variable, sizeBytes] of [
    ['.bss', 'state', shared.state.sizeBytes],
    ['.rodata', 'settings', shared.settings.sizeBytes],
  ] as const) {
    test(`${section} holds \`${variable}\` and nothing else`, () => {
      const vars = btf?.find('DATASEC', section)?.vars;
      assert.deepEqual(
        vars?.map(({ type_id, offset, size }) => ({ type_id, offset, size })),
        [{ type_id: btf?.find('VAR', variable)?.id, offset: 0, size: sizeBytes }],
      );
    });
  }
});

suite('the header of changes has the words of layout.ts', { skip: headerSkip }, () => {
  const btf = headerSkip
    ? undefined
    : compileHeader('changes.h', [
        'struct process_record',
        'enum change_record_type',
        'enum change_flags',
        'enum change_call',
      ]);

  test('struct process_record', () => {
    assert.deepEqual(btf?.structure('process_record'), snakeKeys(layout.processRecord));
  });

  test('enumerations', () => {
    const { process, change } = layout.recordTypes;
    assert.deepEqual(btf?.enumeration('change_record_type'), {
      CHANGE_RECORD_PROCESS: process,
      CHANGE_RECORD_CHANGE: change,
    });
    const { ofName, made, named } = layout.changeFlags;
    assert.deepEqual(btf?.enumeration('change_flags'), {
      CHANGE_OF_NAME: ofName,
      CHANGE_MADE: made,
      CHANGE_NAMED: named,
    });
    const calls = layout.changeCalls.map((word, value) => [`CHANGE_CALL_${word.toUpperCase()}`, value]);
    assert.deepEqual(btf?.enumeration('change_call'), Object.fromEntries(calls));
  });
});
