/* The management core's side of athread, on the host: one core group, whose CPEs are fibres. */
#ifndef HOST_ATHREAD_H
#define HOST_ATHREAD_H

#define SLAVE_FUN(function) function
#define athread_spawn(function, argument) host_spawn(function, argument)

int athread_init(void);
/* Runs the function on every CPE; 0. */
int host_spawn(void (*function)(void *), void *argument);
/* Waits for the CPEs and checks what they leave behind; 0. */
int athread_join(void);
/* Ends the CPEs and prints one line of counters; 0. */
int athread_halt(void);

#endif
