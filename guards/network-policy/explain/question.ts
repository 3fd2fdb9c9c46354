/** Parses the question from the command line. */
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { Question } from './explanation.ts';
import { parseServiceName } from './service.ts';

const withPorts: readonly string[] = ['TCP', 'UDP', 'SCTP'];
const withoutPorts: readonly string[] = ['ICMP', 'ICMPv6'];

/** `80`, `80/TCP`, `53/udp`, `http`, `ICMP`. @throws {RampartError} `INPUT` */
export function parsePort(text: string): Pick<Question, 'protocol' | 'port'> {
  const portless = withoutPorts.find((name) => name.toLowerCase() === text.toLowerCase());
  if (portless !== undefined) return { protocol: portless, port: undefined };
  const [port = '', given = 'TCP', ...rest] = text.split('/');
  const protocol = withPorts.find((name) => name === given.toUpperCase());
  const number = Number(port);
  const isNumber = /^\d{1,5}$/.test(port) && number > 0 && number < 65_536;
  const isName = /^[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?$/.test(port) && /[a-z]/.test(port);
  if (protocol !== undefined && rest.length === 0 && (isNumber || isName))
    return { protocol, port: isNumber ? number : port };
  throw new RampartError(errorCodes.INPUT, {
    what: `--port ${JSON.stringify(text)} is not a port`,
    next: 'Give a number or a port name, with the protocol unless it is TCP: 80, 53/UDP, http; or ICMP',
  });
}

/** Requires a namespace for a pod: without one it would be a guess. @throws {RampartError} `INPUT` */
export function checkEnd(option: '--from' | '--to', text: string): string {
  if (/^[^\s/]+\/[^\s/]+$/.test(text) || /^[\da-f.:]+$/i.test(text)) return text;
  const isTo = option === '--to';
  if (isTo && parseServiceName(text, 'default') !== undefined) return text;
  throw new RampartError(errorCodes.INPUT, {
    what: `${option} ${JSON.stringify(text)} is neither a pod nor an address${isTo ? ', nor a Service' : ''}`,
    next: `Give a pod as NAMESPACE/NAME, or an IPv4 or IPv6 address${isTo ? ', or a Service as svc/NAMESPACE/NAME or NAME.NAMESPACE.svc' : ''}`,
  });
}
