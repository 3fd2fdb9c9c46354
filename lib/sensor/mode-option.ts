/** The flag for the sensor's mode, shared by all commands that use the sensor. */

/** `--mode`: a SensorModeName, or `auto` for the best that works. */
export const sensorModeOption = {
  flags: '--mode <mode>',
  description: 'how to attach to the kernel',
  on: ['agent', 'standalone'],
  choices: ['auto', 'fentry', 'kprobe', 'raw_tracepoint'],
  default: 'auto',
} as const;
