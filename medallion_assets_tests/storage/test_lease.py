"""One holder at a time: races, dead and paused holders, wrong clocks; on a disk and in an object store."""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid

import pytest

from medallion_assets.storage import storage_of
from medallion_assets.storage.claims import Claims, Timing
from medallion_assets.storage.lease import LeaseLost, TableBusy, check_held, held, is_held

FAST = Timing(beat=0.05, expires=1.5, poll=0.02)


@pytest.fixture(params=["local", "memory", "s3"])
def folder(request, tmp_path):
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/{uuid.uuid4().hex}/lease"
    return str(tmp_path / "lease") if request.param == "local" else f"memory://{uuid.uuid4().hex}/lease"


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path):
    """Where ``held`` chooses by itself how to hold."""
    return tmp_path / "lease" if request.param == "local" else f"memory://{uuid.uuid4().hex}/lease"


@pytest.fixture
def claims(folder):
    """Makes the claims of one more process, which ends with the test."""
    made = []

    def make(timing=FAST):
        made.append(Claims(folder, storage_of(folder), b"{}", timing))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def test_one_holds_at_a_time_and_the_next_comes_in_when_it_is_done(place):
    with held(place, "shop/bronze/orders") as first:
        assert is_held(place)
        assert first.still_held()
        with pytest.raises(TableBusy, match="process"), held(place, "shop/bronze/orders", 0.1):
            raise AssertionError("two writers held one table")
    assert not is_held(place)
    with held(place, "shop/bronze/orders", 0.1) as second:
        assert second.still_held()
        check_held()


def test_of_many_that_race_one_holds_at_a_time_and_numbers_only_grow(claims):
    inside, most, numbers = 0, 0, []
    lock = threading.Lock()

    def work(mine):
        nonlocal inside, most
        for _ in range(3):
            assert mine.take(30)
            with lock:
                inside += 1
                most = max(most, inside)
                numbers.append(mine.number)
            assert mine.still_held()
            with lock:
                inside -= 1
            mine.release()

    threads = [threading.Thread(target=work, args=(claims(Timing(0.5, 20, 0.03)),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert len(numbers) == 24
    assert numbers == sorted(set(numbers))


def test_of_many_that_create_one_file_at_once_one_does_and_its_content_stays(folder):
    storage, writers = storage_of(folder), 16
    for number in range(5):
        path, together, won = f"{folder}/{number}", threading.Barrier(writers), []

        def create(name, path=path, together=together, won=won):
            together.wait()
            if storage.create(path, name):
                won.append(name)

        threads = [threading.Thread(target=create, args=(b"%d" % n,)) for n in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with storage.open(path) as content:
            assert [content.read()] == won


def test_a_holder_that_beats_keeps_the_lease_however_long_it_works(claims):
    first, second = claims(), claims()
    assert first.take(0)
    assert not second.take(2 * FAST.expires)
    assert first.still_held()


def test_a_paused_holder_that_wakes_up_finds_that_it_was_taken_over(claims):
    first, second = claims(), claims()
    assert first.take(0)
    first.stop()
    assert second.take(30)
    assert second.number > first.number
    # Awake again, it beats and ends as if nothing had happened; nobody else is let in by that.
    first.beat(99)
    first.release()
    assert not first.still_held()
    assert second.still_held()
    assert not claims().take(FAST.expires / 2)


def test_of_many_that_wait_for_a_dead_holder_one_takes_over(claims):
    dead, others = claims(), [claims() for _ in range(8)]
    assert dead.take(0)
    dead.stop()
    took = []
    threads = [threading.Thread(target=lambda o=o: took.append(o.take(1.6 * FAST.expires))) for o in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert took.count(True) == 1
    assert [one.still_held() for one in others].count(True) == 1


def test_an_old_number_created_late_holds_nothing(claims):
    for _ in range(3):
        one = claims()
        assert one.take(0)
        one.release()
    late = claims()
    assert not late.claim(1)
    assert not late.still_held()
    assert claims().take(0)


def test_clocks_that_are_wrong_change_nothing(claims, monkeypatch):
    first, second = claims(), claims()
    assert first.take(0)
    for wrong in (0.0, 4e9):
        monkeypatch.setattr(time, "time", lambda wrong=wrong: wrong)
        assert not second.take(2 * FAST.expires)
        assert first.still_held()


def test_no_more_files_stay_than_of_the_last_two_claims(claims, folder):
    for _ in range(10):
        one = claims(Timing(0.005, 5, 0.01))
        assert one.take(0)
        time.sleep(0.05)
        one.release()
    assert len([*storage_of(folder).list(folder)]) <= 8


@pytest.mark.parametrize("folder", ["local", "s3"], indirect=True)
@pytest.mark.parametrize("hours", [-5, 0, 5])
def test_a_process_stopped_by_a_signal_loses_the_lease_and_says_so_when_it_goes_on(folder, hours):
    code = f"""
import sys, time
right = time.time
time.time = lambda: right() + {hours} * 3600
from medallion_assets.storage import storage_of
from medallion_assets.storage.claims import Claims, Timing
lease = Claims({folder!r}, storage_of({folder!r}), b"{{}}", Timing(0.05, 1.5, 0.02))
print(lease.take(0), flush=True)
sys.stdin.readline()
print(lease.still_held(), flush=True)
"""
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "True\n"
        other = Claims(folder, storage_of(folder), b"{}", FAST)
        assert not other.take(1.5 * FAST.expires)
        os.kill(holder.pid, signal.SIGSTOP)
        assert other.take(30)
        os.kill(holder.pid, signal.SIGCONT)
        assert holder.communicate("\n", timeout=30)[0] == "False\n"
        assert other.still_held()
        other.release()


def test_a_commit_is_refused_once_the_lease_went_to_another(tmp_path):
    with held(tmp_path, "shop/bronze/orders"):
        check_held()
        # As when someone clears the state's folder under a run: another process can lock a new file.
        (tmp_path / "lock").unlink()
        with held(tmp_path, "shop/bronze/orders", 0.1), pytest.raises(LeaseLost, match="not committed"):
            check_held()
