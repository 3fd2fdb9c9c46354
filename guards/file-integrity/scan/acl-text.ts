/** Access control lists in the text form of acl_to_text(3), which is byte for byte what AIDE stores. */
import { readFileSync } from 'node:fs';

/** Tags of entries in the extended attribute `system.posix_acl_access` (include/uapi/linux/posix_acl.h). */
const tags = { userOwner: 1, user: 2, groupOwner: 4, group: 8, mask: 16, other: 32 } as const;
const version = 2;
const headerBytes = 4;
const entryBytes = 8;

interface AclEntry {
  readonly tag: number;
  readonly permissions: number;
  readonly id: number;
}

/** Names of user and group ids on this machine. */
export interface AccountNames {
  readonly users: ReadonlyMap<number, string>;
  readonly groups: ReadonlyMap<number, string>;
}

/**
 * Reads names from /etc/passwd and /etc/group. AIDE asks the name service, which may query the network; that must not
 * happen for each of a hundred thousand files.
 */
export function readAccountNames(): AccountNames {
  return { users: namesOf('/etc/passwd'), groups: namesOf('/etc/group') };
}

function namesOf(file: string): ReadonlyMap<number, string> {
  const names = new Map<number, string>();
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch {
    // An image may lack this file: ids are then shown as numbers.
    return names;
  }
  for (const line of text.split('\n')) {
    const [name = '', , id = ''] = line.split(':');
    // The first entry of an id takes effect, as in getpwuid(3).
    if (/^\d+$/.test(id) && name !== '' && !names.has(Number(id))) names.set(Number(id), name);
  }
  return names;
}

const ofModes: string[] = [];

/** The ACL of a file that has only permissions: `user::rw-`, `group::r--`, `other::r--`. */
export function aclOfMode(mode: number): string {
  const permissions = mode & 0o777;
  return (ofModes[permissions] ??= [
    `user::${letters(permissions >> 6)}\n`,
    `group::${letters((permissions >> 3) & 7)}\n`,
    `other::${letters(permissions & 7)}\n`,
  ].join(''));
}

/** The text for the value of the extended attribute; undefined if Linux would refuse the value. */
export function aclText(value: Buffer, names: AccountNames): string | undefined {
  if (value.length < headerBytes || value.readUInt32LE(0) !== version) return undefined;
  if ((value.length - headerBytes) % entryBytes !== 0) return undefined;
  const entries: AclEntry[] = [];
  for (let at = headerBytes; at < value.length; at += entryBytes) {
    entries.push({
      tag: value.readUInt16LE(at),
      permissions: value.readUInt16LE(at + 2),
      id: value.readUInt32LE(at + 4),
    });
  }
  entries.sort((a, b) => a.tag - b.tag || a.id - b.id);
  const mask = entries.find(({ tag }) => tag === tags.mask)?.permissions ?? 7;
  return entries.map((entry) => lineOf(entry, mask, names)).join('');
}

function lineOf({ tag, permissions, id }: AclEntry, mask: number, { users, groups }: AccountNames): string {
  const rights = letters(permissions);
  // If the mask removes permissions, the effective ones are shown after the entry.
  const effective = permissions & mask;
  const masked = effective === permissions ? '' : `\t#effective:${letters(effective)}`;
  switch (tag) {
    case tags.userOwner:
      return `user::${rights}\n`;
    case tags.user:
      return `user:${quoted(users.get(id), id)}:${rights}${masked}\n`;
    case tags.groupOwner:
      return `group::${rights}${masked}\n`;
    case tags.group:
      return `group:${quoted(groups.get(id), id)}:${rights}${masked}\n`;
    case tags.mask:
      return `mask::${rights}\n`;
    case tags.other:
      return `other::${rights}\n`;
    default:
      return '';
  }
}

function quoted(name: string | undefined, id: number): string {
  if (name === undefined) return String(id);
  return name.replaceAll(
    /[:, \t\n\r\\]/g,
    (character) => `\\${character.charCodeAt(0).toString(8).padStart(3, '0')}`,
  );
}

function letters(permissions: number): string {
  return `${permissions & 4 ? 'r' : '-'}${permissions & 2 ? 'w' : '-'}${permissions & 1 ? 'x' : '-'}`;
}
