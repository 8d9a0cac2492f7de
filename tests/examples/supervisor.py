"""supervisor.py DRIVER.so RELEASE_JSON OPTIONS_JSON PROMPT_JSON...: a host in another language, through
the ABI alone. Prints each observation; exit code 0 when the run's status is ok."""
import ctypes as c, json, sys

FN, VOID, U16, U32, U64, SIZE = c.CFUNCTYPE, c.c_void_p, c.c_uint16, c.c_uint32, c.c_uint64, c.c_size_t

def struct(*fields):
    return type("Struct", (c.Structure,), {"_fields_": list(fields)})

HEAD = (("size", U32), ("major", U16), ("minor", U16))
Error = struct(("kind", c.c_int), ("code", c.c_int), ("text", c.c_char * 768), ("fix", c.c_char * 320))
ERROR = c.POINTER(Error)
Observation = struct(("size", U32), ("type", U32), ("seq", U64), ("at_ms", U64), ("turn", U32), ("frame", U64),
                     ("json", VOID), ("json_len", SIZE))  # and more that is not looked at
Setup = struct(*HEAD, ("memory", VOID))
ON_OBSERVATION, ON_READY = FN(c.c_int, VOID, c.POINTER(Observation)), FN(None, VOID)
ON_TURN, ON_RESULT = FN(None, VOID, U32, VOID, SIZE), FN(None, VOID, VOID, SIZE)
Host = struct(*HEAD, *((name, VOID) for name in ("user", "on_phase", "on_progress")), ("on_observation", ON_OBSERVATION),
              *((name, VOID) for name in ("on_log", "on_frame", "on_stderr", "on_call", "on_finding")), ("on_ready", ON_READY),
              ("on_turn", ON_TURN), ("on_result", ON_RESULT), ("on_closed", VOID))  # a shorter host is an older one
Driver = struct(*HEAD, ("name", c.c_char_p), ("version", c.c_char_p), ("setup", FN(c.c_int, c.POINTER(Setup), ERROR)),
                ("open", FN(c.c_int, VOID, c.c_char_p, SIZE, c.c_char_p, SIZE, c.POINTER(Host), c.POINTER(VOID), ERROR)),
                ("prompt", FN(c.c_int, VOID, c.c_char_p, SIZE, ERROR)), *((name, VOID) for name in ("cancel", "interrupt",
                "steer", "permission_answer", "question_answer", "resume")), ("close", FN(None, VOID, U64, VOID)))

driver, uv = Driver.in_dll(c.CDLL(sys.argv[1]), "cf_driver_docker_v1"), c.CDLL("libuv.so.1")
err, run, prompts, status = Error(), VOID(), [p.encode() for p in sys.argv[4:]], [1]
uv.uv_default_loop.restype = VOID

def prompt_or_close(*_):
    if not prompts or driver.prompt(run, prompts[0], len(prompts.pop(0)), err) < 0:
        driver.close(run, 5000, None)

def on_observation(_, o):
    print(o.contents.seq, json.loads(c.string_at(o.contents.json, o.contents.json_len))["type"], flush=True)
    return 0

def on_result(_, text, size):
    status[0] = int(json.loads(c.string_at(text, size))["status"] != "ok")
    driver.close(run, 0, None)

host = Host(size=c.sizeof(Host), major=1, on_observation=ON_OBSERVATION(on_observation),
            on_ready=ON_READY(prompt_or_close), on_turn=ON_TURN(prompt_or_close), on_result=ON_RESULT(on_result))
opened = [(a.encode(), len(a.encode())) for a in sys.argv[2:4]]
if (driver.major != 1 or driver.setup(Setup(c.sizeof(Setup), 1, 0, None), err) < 0 or
        driver.open(uv.uv_default_loop(), *opened[0], *opened[1], host, run, err) < 0):
    sys.exit(f"{err.text.decode()}\n{err.fix.decode()}")
uv.uv_run(VOID(uv.uv_default_loop()), 0)
sys.exit(status[0])
