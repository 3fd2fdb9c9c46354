/** The lines of this guard: a KiveAlert, and how it is shown to a person. */
import type { Decision, LineKind, PrettyLineOptions } from '../../../guard/line-kind.ts';
import { apiTimeNs } from '../../../lib/kube/object/api-time.ts';
import { dateBefore } from '../../../lib/output/date-before.ts';
import { printable } from '../../../lib/output/printable.ts';
import { paint } from '../../../lib/output/table.ts';
import { type KiveAlert, maskOf } from './alert.ts';
import { formatPretty } from './pretty.ts';

export const alertLines: LineKind = {
  kind: 'KiveAlert',
  view({ keys }) {
    const alert = keys as Partial<KiveAlert>;
    const isWhole = alert.metadata && alert.pod?.container && alert.process && alert.timestamp;
    if (!isWhole) return undefined;
    const whole = alert as KiveAlert;
    const { namespace, name } = whole.pod;
    return {
      path: pathOf(whole),
      ...(name !== '' && { next: ['alerts', '--pod', `${namespace}/${name}`, '--since', '1h'] }),
      ...(whole.metadata.verdict === 'denied' && { decision: decisionOf(whole) }),
      pretty: (options) => formatAlert(whole, options),
    };
  },
};

/** A person decides whether this process should be able to access this file. */
function decisionOf(alert: KiveAlert): Decision {
  const { pod, process: by } = alert;
  return {
    key: [pod.namespace, pod.name, pathOf(alert), by.binary].join('\0'),
    isOpen: true,
    what: ['denied access', 'denied accesses'],
  };
}

/**
 * The line of `formatPretty`, with the pod before the path and, after it, the policy, who accessed the file if it was not the pod itself,
 * and whether the file is no longer at that path.
 *
 * @example
 * // 10:00:00.123   read          shop/nginx-pod/nginx:/secret.txt  /usr/bin/cat /secret.txt  (pid 41, uid 0)  secrets, accessed from the
 * host
 */
function formatAlert(alert: KiveAlert, { colour, nowMs }: PrettyLineOptions): string {
  const { metadata, process: by, pod } = alert;
  const ns = apiTimeNs(alert.timestamp) ?? 0n;
  const place = pod.name === '' ? '' : `${pod.namespace}/${pod.name}/${pod.container.name}:`;
  const cut = new Set<string>(by.truncated ?? []);
  const line = formatPretty(
    {
      timeNs: ns,
      inode: BigInt(Math.trunc(metadata.inode)),
      device: metadata.device,
      mask: maskOf(metadata),
      from: metadata.from ?? '',
      to: metadata.to ?? '',
      namesOfFileSystem: false,
      verdict: metadata.verdict,
      folded: metadata.folded,
      tid: by.pid,
      pid: by.tgid,
      ppid: by.ppid,
      uid: by.uid,
      gid: by.gid,
      comm: by.comm,
      executable: by.binary,
      executableTruncated: cut.has('binary'),
      cwd: by.cwd,
      cwdTruncated: cut.has('cwd'),
      arguments: by.arguments,
      argumentsTruncated: cut.has('arguments'),
      cgroupId: 0n,
      cgroup: '',
      pidNamespace: by['pid-namespace'],
      mountNamespace: by['mount-namespace'],
    },
    `${place}${pathOf(alert)}`,
    { color: colour, pathWidth: 40 },
  );
  const words = [
    printable(alert['kive-policy-name']),
    accessorWords(alert),
    metadata.moved === true ? 'the file was moved' : '',
  ].filter((word) => word !== '');
  const after = words.length === 0 ? '' : `  ${paint('dim', words.join(', '), colour)}`;
  return `${dateBefore(Number(ns / 1_000_000n), nowMs)}${line}${after}`;
}

export function pathOf({ metadata: { path, file = path } }: KiveAlert): string {
  return file;
}

function accessorWords({ accessor, pod: owner }: KiveAlert): string {
  switch (accessor?.relation) {
    case 'container': {
      const { pod, container } = accessor;
      return `by ${printable(`${pod.namespace}/${pod.name}/${container.name}`)}`;
    }
    case 'host':
      // If the file belongs to no pod, it is the host's own, and nothing needs to be said.
      if (accessor.mounts === undefined) return owner.name === '' ? '' : 'accessed from the host';
      return `by ${accessor.unit === undefined ? 'the host, mount namespace of its own' : printable(accessor.unit)}`;
    case 'unknown': {
      const { id } = accessor.container;
      return `by ${id === '' ? 'an unknown container' : `unknown container ${printable(id.slice(0, 12))}`}`;
    }
    case 'owner':
    case undefined:
      return '';
  }
}
