"""The reference pipelines as a code location, where notifications name the files of one landing zone.

``EVENTS_QUEUE`` is the queue's address; without it the pipelines are as they are.
"""

import os
from dataclasses import replace

from medallion_assets import build_definitions
from medallion_assets.pipelines import PIPELINES
from medallion_assets.pipelines.school import bronze

ZONE = "school/enrollments"

if os.environ.get("EVENTS_QUEUE"):
    ((files, read),) = bronze.enrollments.reads
    by_events = replace(read, source=replace(read.source, file_events=os.environ["EVENTS_QUEUE"]))
    # Other tables refer to this one.
    object.__setattr__(bronze.enrollments, "reads", ((files, by_events),))

defs = build_definitions(PIPELINES.values())
