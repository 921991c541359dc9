"""The names of other libraries that do not belong in a workflow body, by code: the data and its lookup.

A pattern is a full name, or a module with `.*` for everything in it. `_PURE` lists the exceptions in such modules.
"""

from __future__ import annotations

import ast
import sys

STDLIB = frozenset({*sys.stdlib_module_names, "builtins"})

_CALLS = {
    "DUR001": """
        time.time time.time_ns time.monotonic time.monotonic_ns time.perf_counter time.perf_counter_ns
        time.process_time time.process_time_ns time.thread_time time.thread_time_ns time.clock_gettime
        time.clock_gettime_ns datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today
        datetime.date.today django.utils.timezone.now django.utils.timezone.localtime pendulum.now pendulum.today
        pendulum.tomorrow pendulum.yesterday arrow.now arrow.utcnow durable.SystemClock.now
        durable.SystemClock.monotonic
    """,
    "DUR002": """
        random.* secrets.* os.urandom os.getrandom uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7 uuid.uuid8
        numpy.random.* ulid.new ulid.ULID nanoid.generate durable.new_id
    """,
    "DUR003": """
        builtins.open builtins.input io.open codecs.open os.* shutil.* tempfile.* glob.* fileinput.* dbm.*
        subprocess.* socket.* socketserver.* ssl.* ftplib.* smtplib.* imaplib.* poplib.* http.client.*
        urllib.request.* xmlrpc.client.* sqlite3.* urllib3.* requests.* httpx.* aiohttp.* websockets.* grpc.*
        psycopg.* psycopg2.* asyncpg.* aiosqlite.* pymysql.* pymongo.* motor.* redis.* elasticsearch.* boto3.*
        aiobotocore.* paramiko.* pika.* kafka.* aiokafka.* sqlalchemy.create_engine sqlalchemy.ext.asyncio.*
        sqlalchemy.orm.Session sqlalchemy.orm.Session.* openai.* anthropic.* sys.stdin.* webbrowser.*
    """,
    "DUR004": """
        threading.* _thread.* concurrent.futures.* multiprocessing.* asyncio.* trio.* anyio.* curio.* gevent.*
        sniffio.* signal.* sched.* time.sleep
    """,
    "DUR005": """
        os.getenv os.getenvb os.getpid os.getppid os.getuid os.geteuid os.getgid os.getlogin os.getcwd os.getcwdb
        os.uname os.cpu_count os.getloadavg os.path.abspath os.path.realpath os.path.expanduser os.path.expandvars
        platform.* getpass.* locale.* socket.gethostname socket.getfqdn pathlib.Path.cwd pathlib.Path.home
        builtins.id builtins.hash builtins.globals builtins.locals resource.*
    """,
    "DUR008": "builtins.print pprint.pprint sys.stdout.* sys.stderr.* click.echo rich.print",
}
_READS = {"DUR005": "os.environ os.environb sys.argv sys.flags"}

_PURE = frozenset(
    """
    os.fspath os.fsencode os.fsdecode os.strerror os.path.join os.path.basename os.path.dirname os.path.split
    os.path.splitext os.path.splitdrive os.path.normpath os.path.normcase os.path.commonpath os.path.commonprefix
    os.path.isabs asyncio.iscoroutine asyncio.iscoroutinefunction
    httpx.URL httpx.Timeout httpx.Headers httpx.QueryParams aiohttp.ClientTimeout signal.Signals glob.escape
    glob.has_magic shutil.get_terminal_size requests.structures.CaseInsensitiveDict
    """.split()
)
# Functions that read the clock only if they get fewer than this many arguments; otherwise they convert.
_CONVERTING = {"time.gmtime": 1, "time.localtime": 1, "time.ctime": 1, "time.asctime": 1, "time.strftime": 2}
_PATH_METHODS = frozenset(
    """
    absolute chmod copy copy_into exists expanduser glob group hardlink_to is_block_device is_dir is_fifo is_file
    is_mount is_socket is_symlink iterdir lchmod link_to lstat mkdir move move_into open owner read_bytes read_text
    readlink rename replace resolve rglob rmdir samefile stat symlink_to touch unlink walk write_bytes write_text
    """.split()
)
# Methods of paths whose names are so distinctive that the type of the receiver need not be known.
PATH_IO_METHODS = frozenset({"read_text", "write_text", "read_bytes", "write_bytes"})
# With a seed these draw the same numbers on every replay.
_SEEDED = ("random.Random", "numpy.random.default_rng", "numpy.random.RandomState")
# Prefixes of methods that are not judged here: the value was judged where it was made, or the access counts as a read.
_VALUES = ("random.Random.", "numpy.random.RandomState.", "os.environ.", "os.environb.", "sys.argv.")
_ERRORS = ("Error", "Exception", "Warning")

_BY_NAME = {name: code for code, names in _CALLS.items() for name in names.split()}
_READ_BY_NAME = {name: code for code, names in _READS.items() for name in names.split()}


def code_of_call(dotted: str, call: ast.Call) -> str | None:
    """The code for calling a name; None if the call is allowed."""
    last = dotted.rpartition(".")[2]
    if dotted in _PURE or last.endswith(_ERRORS) or dotted.startswith(_VALUES):
        return None
    if dotted in _SEEDED:
        return None if call.args or call.keywords else "DUR002"
    if dotted in _CONVERTING:
        return "DUR001" if len(call.args) < _CONVERTING[dotted] else None
    if dotted in _BY_NAME:
        return _BY_NAME[dotted]
    if dotted.startswith("pathlib.Path."):
        return "DUR003" if last in _PATH_METHODS else None
    return _by_module(dotted)


def code_of_read(dotted: str) -> str | None:
    """The code for reading a name without a call; None if that is allowed."""
    return _READ_BY_NAME.get(dotted)


def _by_module(dotted: str) -> str | None:
    """The code of the longest pattern `module.*` that matches a name."""
    parts = dotted.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts) - 1, 0, -1))
    return next((_BY_NAME[f"{prefix}.*"] for prefix in prefixes if f"{prefix}.*" in _BY_NAME), None)
