import { errnoText } from '../../../../lib/ebpf/libc.ts';
import { shorten } from './nftables.ts';
import { NftablesBatch, RefusedBatch } from './nftables-batch.ts';
import { NETLINK_NETFILTER, NetlinkSocket } from '../../../../lib/netlink/socket.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { Encoder } from './encode.ts';
import { bareTableName, tableName } from './names.ts';
import type { Command, TableObject } from './objects.ts';
import { baseText, rateText, ruleText, setTypeText, verdictText } from './rule-text.ts';

export interface RefusedCommand {
  readonly command: Command;
  /** The kernel's errno, or what nftables cannot express. */
  readonly why: string;
}

/** None of the commands was applied. */
export class RefusedCommands extends RampartError {
  /** Commands that were refused individually; if empty, they were refused together. */
  readonly refused: readonly RefusedCommand[];

  constructor(refused: readonly RefusedCommand[], why: string) {
    const [first] = refused;
    super(errorCodes.SYSTEM, {
      what:
        first === undefined
          ? 'nftables refused a change'
          : `nftables refused \`${shorten(commandText(first.command))}\``,
      why,
    });
    this.refused = refused;
  }
}

/** Changes our table in the network namespace that the calling thread had when this was created. Dispose it after use. */
export class TableProgram implements Disposable {
  readonly #socket = new NetlinkSocket({ protocol: NETLINK_NETFILTER });

  /** @throws {RefusedCommands} nothing was changed then; {@link RampartError} `PRIVILEGE` without CAP_NET_ADMIN. */
  run(commands: readonly Command[]): void {
    const batch = new NftablesBatch(bareTableName);
    const encoder = new Encoder(batch);
    const commandOf: Command[] = [];
    const inexpressible: RefusedCommand[] = [];
    for (const command of commands) {
      const why = encode(encoder, command);
      if (why !== undefined) inexpressible.push({ command, why });
      while (commandOf.length < batch.count) commandOf.push(command);
    }
    if (inexpressible[0] !== undefined) throw new RefusedCommands(inexpressible, inexpressible[0].why);
    try {
      batch.send(this.#socket);
    } catch (error) {
      if (!(error instanceof RefusedBatch)) throw error;
      const refused = [...error.messages].map(([at, why]) => ({ command: commandOf[at]!, why }));
      throw new RefusedCommands(refused, refused[0]?.why ?? errnoText(error.number));
    }
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }
}

/** @returns why it cannot be expressed; the batch must not be sent then */
function encode(encoder: Encoder, command: Command): string | undefined {
  try {
    encoder.command(command);
    return undefined;
  } catch (error) {
    if (!(error instanceof RampartError) || error.code !== errorCodes.UNSUPPORTED) throw error;
    return error.message;
  }
}

/** Refused commands in nft's own language, for people. */
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
        if (command.do === 'delete element') return key;
        if (set.holds === 'counters' || set.holds === 'limits') return `${key} : "${set.elements.get(key)}"`;
        const verdict = set.holds === 'verdicts' ? set.elements.get(key) : undefined;
        return verdict === undefined ? key : `${key} : ${verdictText(verdict)}`;
      });
      return `${command.do} ${tableName} ${set.name} { ${texts.join(', ')} }`;
    }
  }
}

function additionText(object: TableObject): string {
  const head = `add ${object.kind} ${tableName} ${object.name}`;
  if (object.kind === 'counter') return head;
  if (object.kind === 'limit') return `${head} { ${rateText(object)}; }`;
  if (object.kind === 'chain') {
    const comment = object.comment === undefined ? '' : `comment "${object.comment}";`;
    const base = object.base === undefined ? '' : baseText(object.base);
    const parts = [base, comment].filter(Boolean);
    return parts.length === 0 ? head : `${head} { ${parts.join(' ')} }`;
  }
  return `${head} { type ${setTypeText(object)};${object.holds === 'ranges' ? ' flags interval;' : ''} }`;
}
