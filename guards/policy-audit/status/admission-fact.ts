/** How writes are given to policies: by the API server of the operator's own process, or by webhooks. */
export const admissionFact = 'admission';
export const inProcess = 'in-process';
export const byPolicyServers = 'policy-servers';
