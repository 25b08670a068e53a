"""Ways in which disks, networks and people spoil files."""

import shutil

import braindive as bd


def flip_bit(path, rng):
    """One bit is the other way round."""
    content = bytearray(path.read_bytes())
    content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    path.write_bytes(content)


def cut_off(path, rng):
    """The end is gone."""
    content = path.read_bytes()
    path.write_bytes(content[: rng.integers(len(content))])


def zero_part(path, rng):
    """A stretch is zeros, as of a page that never reached the disk."""
    content = bytearray(path.read_bytes())
    start = int(rng.integers(len(content)))
    stop = min(start + int(rng.integers(1, 64)), len(content))
    content[start:stop] = bytes(stop - start)
    path.write_bytes(content)


def add_bytes(path, rng):
    """More was written than there should be."""
    with open(path, "ab") as file:
        file.write(rng.bytes(int(rng.integers(1, 64))))


def lose(path, rng):
    """The file is gone."""
    path.unlink()


WAYS = (flip_bit, flip_bit, flip_bit, cut_off, zero_part, add_bytes, lose)


def damage_folder(folder, rng):
    """Spoil one file of a folder in one way; say which and how."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    path, way = files[rng.integers(len(files))], WAYS[rng.integers(len(WAYS))]
    way(path, rng)
    return f"{way.__name__} in {path.relative_to(folder)}"


def fresh_copy(source, target):
    """Copy of a folder, in place of an earlier one."""
    shutil.rmtree(target, ignore_errors=True)
    return shutil.copytree(source, target)


def answer_or_error(ask):
    """What a question gives: an answer, or one of our errors, which is one sentence."""
    try:
        return ask()
    except bd.BraindiveError as error:
        if "\n" in str(error):
            raise
        return error
