/* The owner of a folder: one process at a time writes there.
 *
 * DIR/owner holds who it is: host, start of the host, namespace of process numbers, process number, start of the
 * process. It is made by an exclusive open, which network file systems honour too, and outlives a kill. A later taker
 * knows that it is stale: on the same host and namespace when there is no such process any more; elsewhere when the
 * file has not been renewed for GAL_OWNER_STALE_SECONDS. The owner renews it every GAL_OWNER_RENEW_SECONDS from a
 * thread of its own, so that a long step does not look like an end. */
#ifndef GAL_RUNTIME_TRAIN_OWNER_H
#define GAL_RUNTIME_TRAIN_OWNER_H

#include <signal.h>
#include <stdbool.h>

#include "schemas/base/status.h"

enum { GAL_OWNER_RENEW_SECONDS = 5, GAL_OWNER_STALE_SECONDS = 20 };

typedef struct gal_owner gal_owner;

/* Becomes the owner of an existing directory. A living owner is waited for, wait_seconds at most (one that was told to
 * end needs a moment); so is, GAL_OWNER_STALE_SECONDS at most, the renewal by an owner of another host. stop: ends the
 * waiting when it is not 0; NULL: nothing does. GAL_ERR_SYSTEM: the folder has an owner, which the message names, or
 * the file cannot be written. */
gal_code gal_owner_take(const char *directory, double wait_seconds, const volatile sig_atomic_t *stop, gal_owner **out,
                        gal_error *err);

/* GAL_ERR_SYSTEM: the file is gone or another process's by now. */
gal_code gal_owner_check(const gal_owner *owner, gal_error *err);

/* Removes the file if it is still this owner's. Accepts NULL. */
void gal_owner_release(gal_owner *owner);

#endif
