/* The version of all programs of this project. Ranks of one run must have the same: raised when programs, messages or
 * documents change. */
#ifndef GAL_SCHEMAS_BASE_VERSION_H
#define GAL_SCHEMAS_BASE_VERSION_H

#define GAL_VERSION "1.0.0"

#endif
