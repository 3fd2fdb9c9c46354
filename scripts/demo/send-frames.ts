/** Sends frames of the ethertype that the demo's programs count: `send-frames.ts INTERFACE COUNT`. */
import { send } from '../../systems/bpf-programs/kernel/lab.fixture.ts';

const [interfaceName = '', count = ''] = process.argv.slice(2);
send(interfaceName, Number(count));
process.stdout.write(`${count} frames sent out of ${interfaceName}\n`);
