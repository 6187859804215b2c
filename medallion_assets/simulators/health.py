"""A clinic's files: a month of heart-rate recordings each, and the patients."""

import json
from calendar import monthrange
from datetime import datetime, timezone
from random import Random

MONTHS = 12
PATIENTS = 12
READINGS_A_DAY = 6
FIRST_MRN = 40_000_001
NAMES = ("Adaeze Obi", "Bruno Costa", "Clara Weiss", "Daichi Mori", "Elif Kaya", "Farid Haddad")


def file_name(number: int) -> str:
    """Return the name of month ``number``'s file."""
    return f"recordings_{2020 + (number - 1) // 12}_{(number - 1) % 12 + 1:02d}.json"


def recordings(number: int, random: Random) -> list[str]:
    """Return one month's recordings of every patient, as JSON lines in order of time."""
    year, month = 2020 + (number - 1) // 12, (number - 1) % 12 + 1
    start = datetime(year, month, 1, tzinfo=timezone.utc).timestamp()
    step = 86_400 / READINGS_A_DAY
    moments = monthrange(year, month)[1] * READINGS_A_DAY
    return [_recording(p, start + i * step, random) for i in range(moments) for p in range(PATIENTS)]


def references(random: Random) -> dict[str, str]:
    """Return the patients, as one CSV file."""
    rows = [f"{FIRST_MRN + i},{NAMES[i % len(NAMES)]} {i + 1}" for i in range(PATIENTS)]
    random.shuffle(rows)
    return {"patients/patients_0001.csv": "mrn,name\n" + "\n".join(rows) + "\n"}


def _recording(patient: int, moment: float, random: Random) -> str:
    # One device in five hundred readings loses contact and reports zero, as real ones do.
    beats = 0.0 if random.random() < 0.002 else round(random.gauss(55 + 3 * patient, 6), 10)
    return json.dumps(
        {
            "device_id": patient + 1,
            "heartrate": beats,
            "mrn": FIRST_MRN + patient,
            "time": moment + random.random() * 600,
        }
    )
