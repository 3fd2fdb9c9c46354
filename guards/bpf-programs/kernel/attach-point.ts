/** Where a program is attached, in readable form. */
import type { Attach } from './desired.ts';

/** `eth0`, `eth0 ingress`, `/usr/lib/libc.so.6:malloc`; '' for nowhere. */
export function attachPoint(attach: Attach): string {
  switch (attach.type) {
    case 'xdp':
      return attach.hook.interface;
    case 'tc':
    case 'tcx':
      return `${attach.hook.interface} ${attach.direction}`;
    case 'kprobe':
    case 'kretprobe':
      return `${attach.functionName}${offsetText(attach.offset)}`;
    case 'fentry':
    case 'fexit':
      return attach.functionName;
    case 'tracepoint':
      return attach.tracepoint;
    case 'uprobe':
    case 'uretprobe':
      return `${attach.target}:${attach.functionName ?? ''}${offsetText(attach.offset)}`;
    case 'nowhere':
      return '';
  }
}

const offsetText = (offset: bigint): string => (offset === 0n ? '' : `+0x${offset.toString(16)}`);
