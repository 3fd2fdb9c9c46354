/**
 * Loaded into the operator's process before its program: sends the counts of its requests to the parent
 * process.
 */
import { countRequests } from './request-counts.ts';

const take = countRequests();
process.on('message', () => process.send?.({ answer: 'counts', counts: take() }));
// No further questions are awaited when the operator ends.
process.channel?.unref();
