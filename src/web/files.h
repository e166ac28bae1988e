/* files.h - the dashboard's files, as they are embedded (web/, bundled by web/build.sh). */
#ifndef TIDE_WEB_FILES_H
#define TIDE_WEB_FILES_H

#include "net/call/route.h"

/* No credentials are needed for them; the argument is not used. */
extern const tide_route tide_web_file_routes[];

#endif
