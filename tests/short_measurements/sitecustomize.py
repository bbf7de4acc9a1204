"""Where this folder is on PYTHONPATH, the machine is measured for seconds; all other Python programs are as ever."""

import shorter

shorter.shorten()
