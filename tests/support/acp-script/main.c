/*
 * acp-script FILE | -e TEXT: plays a text file as an ACP agent, so that every way in which an
 * agent can talk, stall or die is a small file in fixtures/wire/.
 *
 * One step a line: a verb and the rest of the line. Empty lines and lines that begin with # are
 * passed over. ${name} is replaced by a variable in every rest. A step that cannot be done ends
 * the program with 4 and a line on stderr; a bad script ends it with 2 before anything is sent.
 *
 *   expect METHOD        reads until a request or notification METHOD; others are passed over.
 *                        Sets ${id} (its id, as JSON) and ${params}; for session/prompt also
 *                        ${prompt_id} and ${prompt} (its text, as the inside of a JSON string)
 *   expect-response ID   reads until the response to our request ID (JSON); sets ${result} to
 *                        its result, or to its whole error object, as JSON
 *   handshake [META]     answers initialize (with META as its result's _meta) and session/new;
 *                        sets ${session}
 *   turn                 a whole proper turn: expect session/prompt, model, chunk ${answer},
 *                        end-turn
 *   model                asks the model for ${prompt}; sets ${answer} (inside of a JSON string)
 *   send JSON            one line
 *   send-crlf JSON       one line that ends in CR LF
 *   split N MS JSON      one line, N bytes at a time, MS milliseconds between
 *   raw TEXT             the bytes alone; \n \r \t \\ \0 \xHH are understood
 *   line TEXT            raw TEXT and a line end
 *   answer JSON          the result of request ${id}
 *   error CODE TEXT      its error
 *   update JSON          a session/update of ${session} with this update
 *   chunk TEXT           an agent_message_chunk; TEXT is the inside of a JSON string
 *   end-turn [REASON]    the result of request ${prompt_id}; end_turn when not given
 *   let NAME TEXT        sets a variable
 *   fill NAME N TEXT     sets it to TEXT, N times over
 *   repeat N ... end     the steps between, N times; ${n} counts from 1
 *   sleep MS             waits
 *   stderr TEXT          a line on stderr
 *   close stdout|stdin   closes one of them
 *   drain                reads on until the end of stdin
 *   hang                 stays for ever, end of stdin or not
 *   ignore SIGNAL        TERM, INT, HUP
 *   signal SIGNAL        dies of KILL, TERM, SEGV, ABRT
 *   eat                  takes memory until something ends it
 *   exit CODE            ends; the end of the script is `drain` and then `exit 0`
 */
#include "play.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

int
main(int argc, char **argv)
{
    struct script script;
    int status;

    signal(SIGPIPE, SIG_IGN);
    if (argc == 3 && strcmp(argv[1], "-e") == 0) {
        script_take(&script, "-e", argv[2]);
    } else if (argc == 2) {
        script_load(&script, argv[1]);
    } else {
        fputs("usage: acp-script FILE | -e TEXT\n", stderr);
        return 2;
    }
    status = play_check(&script);
    if (status == 0)
        status = play(&script);
    script_release(&script);
    return status;
}
