/* What a turn shows before and after it asks its model: each stage is something really done. */
#include "turn.h"

#include "base/clock.h"
#include "base/str.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

enum { WINDOW = 200000, NAMES_LIMIT = 20 };

static void
send_plan(struct hn_turn *turn, const char *looking, const char *asking)
{
    hn_turn_update(turn, NULL,
                   json_pack("{s:s, s:[{s:s, s:s, s:s}, {s:s, s:s, s:s}]}", "sessionUpdate", "plan",
                             "entries", "content", "Look around", "priority", "low", "status",
                             looking, "content", "Ask the model", "priority", "high", "status",
                             asking));
}

void
hn_stage_opening(struct hn_turn *turn)
{
    hn_turn_thought(turn, NULL, "First a look around, then I ask the model.");
    send_plan(turn, "in_progress", "pending");
}

/* ---- looking around, with or without leave ---------------------------------------------- */

static json_t *
list_names(const char *path)
{
    DIR *directory = opendir(path);
    json_t *names = json_array();
    struct dirent *entry;

    if (directory == NULL) {
        json_decref(names);
        return NULL;
    }
    while ((entry = readdir(directory)) != NULL && json_array_size(names) < NAMES_LIMIT)
        if (entry->d_name[0] != '.')
            json_array_append_new(names, json_string(entry->d_name)); /* NULL: not UTF-8, left out */
    closedir(directory);
    return names;
}

/* "y": go on. "n": refused. "": the turn is cancelled. */
static char
ask_leave(struct hn_turn *turn, const char *call_id, const char *title)
{
    json_t *result, *outcome;
    const char *option;
    char answer = 'n';

    result = hn_turn_ask_client(
        turn, "session/request_permission",
        json_pack("{s:{s:s, s:s, s:s, s:s}, s:[{s:s, s:s, s:s}, {s:s, s:s, s:s}, {s:s, s:s, s:s}]}",
                  "toolCall", "toolCallId", call_id, "title", title, "kind", "search", "status",
                  "pending", "options", "optionId", "yes-once", "name", "Allow", "kind",
                  "allow_once", "optionId", "yes-always", "name", "Always allow", "kind",
                  "allow_always", "optionId", "no-once", "name", "Deny", "kind", "reject_once"));
    outcome = json_object_get(result, "outcome");
    option = json_string_value(json_object_get(outcome, "optionId"));
    if (option != NULL && cf_str_starts(option, "yes-"))
        answer = 'y';
    else if (option == NULL && result != NULL)
        answer = '\0';
    json_decref(result);
    return answer;
}

static void
look_around(struct hn_turn *turn, const char *subagent, bool with_leave)
{
    const char *cwd = turn->session->cwd;
    json_t *names;
    char id[24], title[256], leave = 'y';

    snprintf(title, sizeof title, "Look around in %.200s", cwd);
    hn_tool_begin(turn, id, subagent, title, "search", json_pack("{s:s}", "path", cwd));
    if (with_leave)
        leave = ask_leave(turn, id, title);
    if (leave == '\0')
        hn_turn_cancel(turn); /* a cancelled permission is a cancelled turn, and not a denial */
    if (leave != 'y') {
        hn_tool_end(turn, id, subagent, true, hn_text_content("not allowed"), NULL);
        return;
    }
    hn_tool_step(turn, id, subagent, "in_progress");
    names = list_names(cwd);
    turn->count.files++;
    if (names == NULL)
        hn_tool_end(turn, id, subagent, true, hn_text_content("cannot be read"), NULL);
    else
        hn_tool_end(turn, id, subagent, false, hn_text_content("done"),
                    json_pack("{s:o}", "names", names));
}

void
hn_stage_look_around(struct hn_turn *turn)
{
    if (hn_turn_is_over(turn) || turn->is_draining || !hn_turn_may(turn, HN_TOOL_READ))
        return;
    look_around(turn, NULL, turn->agent->options->ask_permission);
}

/* ---- what the client offers ------------------------------------------------------------- */

static bool
is_wanted(struct hn_turn *turn, bool flag, bool offered, const char *what)
{
    if (!flag || hn_turn_is_over(turn) || turn->is_draining)
        return false;
    if (!offered)
        fprintf(stderr, "acp-agent: the client does not offer %s\n", what);
    return offered;
}

void
hn_stage_question(struct hn_turn *turn)
{
    json_t *result;
    const char *action;

    if (!is_wanted(turn, turn->agent->options->ask_question, turn->agent->client_forms,
                   "elicitation forms"))
        return;
    result = hn_turn_ask_client(
        turn, "elicitation/create",
        json_pack("{s:s, s:s, s:{s:s, s:{s:{s:s, s:s, s:[s, s]}}, s:[s]}}", "mode", "form",
                  "message", "Which colour?", "requestedSchema", "type", "object", "properties",
                  "colour", "type", "string", "title", "Colour", "enum", "red", "blue", "required",
                  "colour"));
    action = json_string_value(json_object_get(result, "action"));
    if (action != NULL && strcmp(action, "accept") == 0)
        hn_turn_thought(turn, NULL, "The client answered my question.");
    json_decref(result);
}

void
hn_stage_client_files(struct hn_turn *turn)
{
    const char *cwd = turn->session->cwd, *content = "kept by the client\n";
    char id[24], path[4200];
    json_t *written, *got;
    bool same;

    if (!is_wanted(turn, turn->agent->options->use_fs,
                   turn->agent->client_reads && turn->agent->client_writes, "files") ||
        !hn_turn_may(turn, HN_TOOL_READ) || !hn_turn_may(turn, HN_TOOL_WRITE))
        return;
    snprintf(path, sizeof path, "%s/acp-agent-note.txt", cwd);
    hn_tool_begin(turn, id, NULL, "Write and read a note", "edit", json_pack("{s:s}", "path", path));
    written = hn_turn_ask_client(turn, "fs/write_text_file",
                                 json_pack("{s:s, s:s}", "path", path, "content", content));
    got = written != NULL ? hn_turn_ask_client(turn, "fs/read_text_file",
                                               json_pack("{s:s}", "path", path))
                          : NULL;
    same = json_is_string(json_object_get(got, "content")) &&
           strcmp(json_string_value(json_object_get(got, "content")), content) == 0;
    hn_tool_end(turn, id, NULL, !same,
                json_pack("[{s:s, s:s, s:s}]", "type", "diff", "path", path, "newText", content),
                json_pack("{s:b}", "read_back_equal", same));
    turn->count.files += 2;
    json_decref(written);
    json_decref(got);
}

static void
run_in_terminal(struct hn_turn *turn, const char *call_id, json_t *terminal)
{
    json_t *content = json_pack("[{s:s, s:O}]", "type", "terminal", "terminalId", terminal);
    json_t *ended, *output;
    json_t *code;

    json_decref(hn_turn_ask_client(turn, "terminal/wait_for_exit",
                                   json_pack("{s:O}", "terminalId", terminal)));
    output = hn_turn_ask_client(turn, "terminal/output", json_pack("{s:O}", "terminalId", terminal));
    ended = json_object_get(output, "exitStatus");
    code = json_object_get(ended, "exitCode");
    hn_tool_end(turn, call_id, NULL, !json_is_integer(code) || json_integer_value(code) != 0,
                content, json_incref(output));
    json_decref(output);
    json_decref(hn_turn_ask_client(turn, "terminal/release",
                                   json_pack("{s:O}", "terminalId", terminal)));
    turn->count.shell++;
}

void
hn_stage_client_terminal(struct hn_turn *turn)
{
    const char *program = turn->agent->options->program;
    json_t *created, *terminal;
    char id[24];

    if (!is_wanted(turn, turn->agent->options->use_terminal, turn->agent->client_terminal,
                   "terminals") ||
        !hn_turn_may(turn, HN_TOOL_BASH))
        return;
    hn_tool_begin(turn, id, NULL, "Say something in a terminal", "execute",
                  json_pack("{s:s, s:[s, s]}", "command", program, "args", "--say", "hello"));
    created = hn_turn_ask_client(turn, "terminal/create",
                                 json_pack("{s:s, s:[s, s], s:s, s:i}", "command", program, "args",
                                           "--say", "hello from a terminal", "cwd",
                                           turn->session->cwd, "outputByteLimit", 65536));
    terminal = json_object_get(created, "terminalId");
    if (json_is_string(terminal))
        run_in_terminal(turn, id, terminal);
    else
        hn_tool_end(turn, id, NULL, true, hn_text_content("no terminal"), NULL);
    json_decref(created);
}

/* ---- subagents -------------------------------------------------------------------------- */

static void
subagent_phase(struct hn_turn *turn, json_t *phase)
{
    char now[21];

    cf_clock_rfc3339(cf_clock_unix(), now);
    hn_session_update(turn->agent, turn->session,
                      json_pack("{s:s, s:s, s:{s:o}}", "sessionUpdate", "session_info_update",
                                "updatedAt", now, "_meta", "checkfu.subagent", phase));
}

static void
subagent_start(struct hn_turn *turn, const char *id, const char *name, const char *description)
{
    subagent_phase(turn, json_pack("{s:s, s:s, s:s, s:s}", "phase", "started", "subagent", id,
                                   "name", name, "description", description));
}

static void
subagent_end(struct hn_turn *turn, const char *id)
{
    subagent_phase(turn, json_pack("{s:s, s:s, s:s}", "phase", "completed", "subagent", id,
                                   "disposition", turn->is_cancelled ? "canceled" : "completed"));
}

/* Two that overlap: the second is started from within the first, and settles before it. */
void
hn_stage_subagents(struct hn_turn *turn)
{
    char outer[24], inner[24];

    if (!turn->agent->options->declared.subagents || hn_turn_is_over(turn) || turn->is_draining)
        return;
    snprintf(outer, sizeof outer, "survey-%u", turn->session->messages_made + 1);
    snprintf(inner, sizeof inner, "count-%u", turn->session->messages_made + 1);
    subagent_start(turn, outer, "Surveyor", "Surveys the working directory");
    hn_turn_thought(turn, outer, "I let someone list the names.");
    subagent_start(turn, inner, "Lister", "Lists the names in it");
    if (hn_turn_may(turn, HN_TOOL_READ))
        look_around(turn, inner, false);
    hn_turn_thought(turn, outer, "That is all there is.");
    subagent_end(turn, inner);
    subagent_end(turn, outer);
}

/* ---- the end ---------------------------------------------------------------------------- */

static void
send_usage(struct hn_turn *turn)
{
    const struct hn_answer *answer = &turn->call.answer;
    json_int_t used = answer->input_tokens + answer->output_tokens;
    json_int_t window = turn->session->authority.context_window;
    json_t *update = json_pack("{s:s, s:I, s:I}", "sessionUpdate", "usage_update", "used", used,
                               "size", window > 0 ? window : (json_int_t)WINDOW);

    if (turn->agent->options->price > 0) {
        turn->session->cost += (double)used * turn->agent->options->price / 1e6;
        json_object_set_new(update, "cost", json_pack("{s:f, s:s}", "amount", turn->session->cost,
                                                      "currency", "USD"));
    }
    hn_turn_update(turn, NULL, update);
}

void
hn_stage_closing(struct hn_turn *turn)
{
    char now[21];

    if (hn_turn_is_over(turn))
        return;
    send_plan(turn, "completed", "completed");
    if (turn->call.is_open && turn->call.answer.has_usage)
        send_usage(turn);
    cf_clock_rfc3339(cf_clock_unix(), now);
    hn_turn_update(turn, NULL,
                   json_pack("{s:s, s:s, s:s}", "sessionUpdate", "session_info_update", "title",
                             "Reference session", "updatedAt", now));
}
