/**
 * The least that a program can do on a remote pod's event: it takes the line of its watch from node:https, parses it, and has libnftables
 * put the pod's address into a set or take it out. It knows no policies, keeps no pods and checks nothing.
 *
 * `node bare-watch.ts ENDPOINT TABLE`: the endpoint as JSON; it runs until it is ended.
 */
import { request } from 'node:https';

import { Nftables } from '../../guards/network-policy/dataplane/nftables/nftables.ts';
import type { Endpoint } from '../apiserver/load-connection.ts';

interface WatchEvent {
  readonly type: string;
  readonly object: { readonly status: { readonly phase: string; readonly podIP: string } };
}

const [endpoint = '', table = ''] = process.argv.slice(2);
const { host, port, ca, token } = JSON.parse(endpoint) as Endpoint;
const nft = new Nftables();
nft.run(`add table inet ${table}; add set inet ${table} pods { type ipv4_addr; }`);
const watched = new Set<string>();

request({ host, port, ca, servername: 'localhost', path: '/api/v1/pods?watch=true' }, (response) => {
  let rest = '';
  response.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    const commands = lines.flatMap((line) => {
      const { status } = (JSON.parse(line) as WatchEvent).object;
      const runs = status.phase === 'Running';
      if (watched.has(status.podIP) === runs) return [];
      if (runs) watched.add(status.podIP);
      else watched.delete(status.podIP);
      return `${runs ? 'add' : 'delete'} element inet ${table} pods { ${status.podIP} }`;
    });
    if (commands.length > 0) nft.run(commands.join('; '));
  });
})
  .setHeader('authorization', `Bearer ${token}`)
  .end();
