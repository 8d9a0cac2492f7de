/* The attempts of `escape probe`: tries.c holds those against the kernel, reach.c those against
 * the network. */
#ifndef ESCAPE_H
#define ESCAPE_H

/* Tries everything; `targets` are unix:PATH and tcp:ADDRESS:PORT of the host, NULL at the end.
 * Returns 0: what was allowed is told on stdout, and judged by who reads it. */
int escape_probe(char **targets);

/* Tries to reach each of `targets`, and every address that a sandbox could know of. */
void escape_reach(char **targets);

/* One line: `result` >= 0 means it worked, else errno says why not. `began_us` from escape_now. */
void escape_tell(const char *name, long result, long began_us);
long escape_now(void); /* microseconds, monotonic */

#endif
