/** Refused commands in nft's own language, for people. */
import { tableName } from './names.ts';
import type { Command, TableObject } from './objects.ts';
import { baseText, ruleText, setTypeText, verdictText } from './rule-text.ts';

export function commandText(command: Command): string {
  switch (command.do) {
    case 'add table':
    case 'delete table':
      return `${command.do} ${tableName}`;
    case 'add':
      return additionText(command.object);
    case 'delete':
      return `delete ${command.object.kind} ${tableName} ${command.object.name}`;
    case 'flush chain':
      return `flush chain ${tableName} ${command.chain}`;
    case 'add rule':
      return `add rule ${tableName} ${command.chain} ${ruleText(command.rule)}`;
    case 'add element':
    case 'delete element': {
      const { set, keys } = command;
      const texts = keys.map((key) => {
        const verdict =
          command.do === 'add element' && set.holds === 'verdicts' ? set.elements.get(key) : undefined;
        return verdict === undefined ? key : `${key} : ${verdictText(verdict)}`;
      });
      return `${command.do} ${tableName} ${set.name} { ${texts.join(', ')} }`;
    }
  }
}

function additionText(object: TableObject): string {
  const head = `add ${object.kind} ${tableName} ${object.name}`;
  if (object.kind === 'counter') return head;
  if (object.kind === 'chain') {
    const comment = object.comment === undefined ? '' : `comment "${object.comment}";`;
    const base = object.base === undefined ? '' : baseText(object.base);
    const parts = [base, comment].filter(Boolean);
    return parts.length === 0 ? head : `${head} { ${parts.join(' ')} }`;
  }
  return `${head} { type ${setTypeText(object)};${object.holds === 'ranges' ? ' flags interval;' : ''} }`;
}
