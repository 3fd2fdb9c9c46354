/** Loaded into the operator's process before its program: tells the counts of its requests to the process that has started it. */
import { countRequests } from './request-counts.ts';

const take = countRequests();
process.on('message', () => process.send?.({ answer: 'counts', counts: take() }));
// Nobody waits for more questions when the operator ends.
process.channel?.unref();
