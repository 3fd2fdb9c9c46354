/** Refused commands in nft's own language, for people. */
import { tableName } from './names.ts';
import type { Command, TableObject } from './objects.ts';

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
      return `add rule ${tableName} ${command.chain} ${command.rule}`;
    case 'add element':
    case 'delete element': {
      const { name, elements } = command.set;
      const texts = command.keys.map((key) => {
        const value = command.do === 'add element' ? elements.get(key) : undefined;
        return value ? `${key} : ${value}` : key;
      });
      return `${command.do} ${tableName} ${name} { ${texts.join(', ')} }`;
    }
  }
}

function additionText(object: TableObject): string {
  const head = `add ${object.kind} ${tableName} ${object.name}`;
  if (object.kind === 'counter') return head;
  if (object.kind === 'chain') {
    const comment = object.comment === undefined ? '' : `comment "${object.comment}";`;
    const parts = [object.base ?? '', comment].filter(Boolean);
    return parts.length === 0 ? head : `${head} { ${parts.join(' ')} }`;
  }
  return `${head} { type ${object.type};${object.interval ? ' flags interval;' : ''} }`;
}
