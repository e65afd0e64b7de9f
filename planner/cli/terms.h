/* Topics of galplan help: the words of the output, a screen of them; the formula of MFU. */
#ifndef GAL_PLANNER_CLI_TERMS_H
#define GAL_PLANNER_CLI_TERMS_H

extern const char gal_cli_terms[];
extern const char gal_cli_mfu[];

#endif
