"""supervisor.py DRIVER.so RELEASE_JSON OPTIONS_JSON PROMPT_JSON...: a host in another language, through
the ABI alone. Prints each observation; exit code 0 when the run's status is ok."""
import ctypes as c
import json
import sys

VOID, U16, U32, U64, SIZE = c.c_void_p, c.c_uint16, c.c_uint32, c.c_uint64, c.c_size_t

class Error(c.Structure):
    _fields_ = [("kind", c.c_int), ("code", c.c_int), ("text", c.c_char * 768), ("fix", c.c_char * 320)]

class Observation(c.Structure):
    _fields_ = [("size", U32), ("type", U32), ("seq", U64), ("at_ms", U64), ("turn", U32), ("frame", U64),
                ("json", VOID), ("json_len", SIZE)]  # and more that is not looked at

class Setup(c.Structure):
    _fields_ = [("size", U32), ("major", U16), ("minor", U16), ("memory", VOID)]

ON_OBSERVATION = c.CFUNCTYPE(c.c_int, VOID, c.POINTER(Observation))
ON_READY = c.CFUNCTYPE(None, VOID)
ON_TURN = c.CFUNCTYPE(None, VOID, U32, VOID, SIZE)
ON_RESULT = c.CFUNCTYPE(None, VOID, VOID, SIZE)

class Host(c.Structure):  # as far as on_closed: a shorter host is an older one
    _fields_ = ([("size", U32), ("major", U16), ("minor", U16), ("user", VOID), ("on_phase", VOID), ("on_progress", VOID),
                 ("on_observation", ON_OBSERVATION)] + [(n, VOID) for n in ("on_log", "on_frame", "on_stderr", "on_call",
                 "on_finding")] + [("on_ready", ON_READY), ("on_turn", ON_TURN), ("on_result", ON_RESULT), ("on_closed", VOID)])

OPEN = c.CFUNCTYPE(c.c_int, VOID, c.c_char_p, SIZE, c.c_char_p, SIZE, c.POINTER(Host), c.POINTER(VOID), c.POINTER(Error))

class Driver(c.Structure):
    _fields_ = [("size", U32), ("major", U16), ("minor", U16), ("name", c.c_char_p), ("version", c.c_char_p),
                ("setup", c.CFUNCTYPE(c.c_int, c.POINTER(Setup), c.POINTER(Error))), ("open", OPEN),
                ("prompt", c.CFUNCTYPE(c.c_int, VOID, c.c_char_p, SIZE, c.POINTER(Error)))] + [
                (n, VOID) for n in ("cancel", "interrupt", "steer", "permission_answer", "question_answer", "resume")] + [
                ("close", c.CFUNCTYPE(None, VOID, U64, VOID))]

driver = Driver.in_dll(c.CDLL(sys.argv[1]), "cf_driver_docker_v1")
uv, err, run, prompts, status = c.CDLL("libuv.so.1"), Error(), VOID(), [p.encode() for p in sys.argv[4:]], [1]
uv.uv_default_loop.restype = VOID

def prompt_or_close(_):
    if not prompts or driver.prompt(run, prompts[0], len(prompts.pop(0)), err) < 0:
        driver.close(run, 5000, None)

def on_observation(_, o):
    print(o.contents.seq, json.loads(c.string_at(o.contents.json, o.contents.json_len))["type"], flush=True)
    return 0

def on_result(_, text, size):
    status[0] = int(json.loads(c.string_at(text, size))["status"] != "ok")
    driver.close(run, 0, None)

host = Host(size=c.sizeof(Host), major=1, on_observation=ON_OBSERVATION(on_observation), on_ready=ON_READY(prompt_or_close),
            on_turn=ON_TURN(lambda _, turn, text, size: prompt_or_close(_)), on_result=ON_RESULT(on_result))
release, options = (a.encode() for a in sys.argv[2:4])
if (driver.major != 1 or driver.setup(Setup(c.sizeof(Setup), 1, 0, None), err) < 0 or
        driver.open(uv.uv_default_loop(), release, len(release), options, len(options), host, run, err) < 0):
    sys.exit(f"{err.text.decode()}\n{err.fix.decode()}")
uv.uv_run(VOID(uv.uv_default_loop()), 0)
sys.exit(status[0])
