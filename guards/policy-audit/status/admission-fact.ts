/** Key of the fact that says how writes reach policies: in the API server of the same process, or by webhooks. */
export const admissionFact = 'admission';
export const inProcess = 'in-process';
export const byPolicyServers = 'policy-servers';
