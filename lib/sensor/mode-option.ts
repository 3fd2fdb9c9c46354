/** How the command line names the modes of the sensor: one flag for all who use it. */

/** `--mode`: a SensorModeName, or `auto` for the best that works. */
export const sensorModeOption = {
  flags: '--mode <mode>',
  description: 'how to attach to the kernel',
  on: ['agent', 'standalone'],
  choices: ['auto', 'fentry', 'kprobe', 'raw_tracepoint'],
  default: 'auto',
} as const;
