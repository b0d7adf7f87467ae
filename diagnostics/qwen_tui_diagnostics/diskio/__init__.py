"""Reading a disk as an engine reads it: io_uring, classic AIO and threads, without a dependency."""
