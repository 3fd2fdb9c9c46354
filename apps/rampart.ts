import { guards } from './guards.ts';
import { runProgram } from './program.ts';

await runProgram(guards);
