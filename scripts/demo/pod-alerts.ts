/** Alerts of pods in the words and tables of the demo. */
import { renderTable } from '../../lib/output/table.ts';
import { formatPretty, type KiveAlert } from '../../guards/file-access/alert/alert.ts';
import { accessOf } from './alerts.ts';
import type { Received } from './receiver.ts';
import type { Screen } from './screen.ts';

/** As `rampart watch` shows an access on a terminal. */
export function accessLine(alert: KiveAlert, { colour }: Pick<Screen, 'colour'>): string {
  const { path } = alert.metadata;
  return formatPretty(accessOf(alert), path, { color: colour, pathWidth: path.length });
}

/** Which container the file is of, by all that an alert says of it. */
export function ownerWords({ pod, 'custom-metadata': metadata }: KiveAlert): string {
  const { container, name, namespace, ip } = pod;
  const also = Object.entries(metadata).map(([key, value]) => `, ${key} ${value}`);
  return `${container.name} in ${namespace}/${name}, ${ip}${also.join('')}`;
}

/** Who accessed it. */
function accessorWords({ accessor }: KiveAlert): string {
  switch (accessor?.relation) {
    case 'owner':
      return 'the container itself';
    case 'host':
      return accessor.unit ?? 'the host';
    case 'container':
      return `${accessor.container.name} in ${accessor.pod.namespace}/${accessor.pod.name}`;
    case 'unknown':
    case undefined:
      return 'not known';
  }
}

export function renderParties(
  alerts: readonly KiveAlert[],
  screen: Pick<Screen, 'widthColumns' | 'colour'>,
): string {
  const rows = alerts.map((alert) => {
    const { name, namespace, container } = alert.pod;
    const file = `${container.name} in ${namespace}/${name}`;
    const { tgid, comm, uid } = alert.process;
    return {
      cells: [alert.metadata.access.join(), file, accessorWords(alert), `${comm} (pid ${tgid}, uid ${uid})`],
    };
  });
  return renderTable(rows, { ...screen, head: ['ACCESS', 'FILE OF', 'ACCESSED BY', 'PROCESS'] });
}

/** The receiver's requests; `lines` are the alerts on stdout. */
export function renderDeliveries(
  requests: readonly Received[],
  lines: readonly string[],
  screen: Pick<Screen, 'widthColumns' | 'colour'>,
): string {
  const rows = requests.map(({ method, path, headers, body }, index) => ({
    cells: [
      `${method} ${path}`,
      String(headers['x-rampart-alert-id']),
      String(headers['content-type']),
      `${Buffer.byteLength(body)} bytes, ${body === lines[index] ? 'as at stdout' : 'not those at stdout'}`,
    ],
  }));
  return renderTable(rows, { ...screen, head: ['REQUEST', 'X-RAMPART-ALERT-ID', 'CONTENT-TYPE', 'BODY'] });
}
